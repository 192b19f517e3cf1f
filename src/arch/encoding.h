// Where the parts of one x86-64 instruction stand: prefixes, opcode, ModRM. Private to this module; decode()
// and relocate() build on it. Tables after the opcode maps of the Intel SDM, volume 2, appendix A.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace rtrace::arch {

struct Encoding {
  enum class Form : uint8_t { legacy, vex, evex };  // XOP counts as vex: the same shape

  Form form = Form::legacy;
  uint8_t map = 0;  // 0: one byte, 1: 0f, 2: 0f 38, 3: 0f 3a, else the map that VEX, XOP or EVEX name
  uint8_t code = 0;
  uint8_t rex = 0;
  bool operand16 = false;      // 66
  bool address32 = false;      // 67
  bool lock = false;           // f0
  bool repne = false;          // f2, bnd
  bool rep = false;            // f3
  bool segment_based = false;  // 64, 65: fs or gs, the only segments with a base
  size_t opcode_at = 0;
  std::optional<size_t> modrm_at;
  uint8_t modrm = 0;

  bool is(uint8_t in_map, uint8_t opcode) const {
    return form == Form::legacy && map == in_map && code == opcode;
  }
  bool rex_w() const { return (rex & 8) != 0; }
  bool rex_b() const { return (rex & 1) != 0; }
  uint8_t mod() const { return static_cast<uint8_t>(modrm >> 6); }
  uint8_t reg() const { return static_cast<uint8_t>((modrm >> 3) & 7); }
  uint8_t rm() const { return static_cast<uint8_t>(modrm & 7); }
  // mod 0, rm 5 is disp32 from the next instruction (SDM volume 2, 2.2.1.6).
  bool rip_relative() const;
};

// nullopt where the bytes end before the opcode or its ModRM does.
std::optional<Encoding> parse_encoding(std::span<const std::byte> bytes);

// The length of an instruction whose immediate is known from its map alone: VEX, XOP, EVEX, 0f 38, 0f 3a, and
// the parts of 0f where new instructions appear. Serves where Capstone does not know an instruction that the
// processor does. nullopt elsewhere.
std::optional<size_t> length_by_map(const Encoding& encoding, std::span<const std::byte> bytes);
// With an immediate of so many bytes; nullopt where it does not fit into `bytes`.
std::optional<size_t> length_with(const Encoding& encoding, std::span<const std::byte> bytes,
                                  size_t immediate);
// The length of an instruction of the kinds that most code is made of, valid ones only; nullopt says nothing.
// Capstone would say the same, but to set it up takes longer than all that a start-up has to decode.
std::optional<size_t> usual_length(const Encoding& encoding, std::span<const std::byte> bytes);

}  // namespace rtrace::arch
