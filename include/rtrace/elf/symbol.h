// What an object's symbol tables and relocations say, as plain values.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rtrace/base/address.h"

namespace rtrace::elf {

// A function symbol (STT_FUNC or STT_GNU_IFUNC, defined). Names point into the ElfFile, which outlives them.
struct Symbol {
  enum class Binding : uint8_t { local, global, weak };
  enum class Table : uint8_t { dynsym, symtab, debugdata, debug_file };

  std::string_view name;
  ElfAddr address;
  uint64_t size = 0;  // 0 is common for assembly and means "not known"
  Binding binding = Binding::global;
  Table table = Table::dynsym;
  bool ifunc = false;           // the address is the resolver's, not the implementation's
  std::string_view version;     // of a dynsym definition; empty where there is none
  bool default_version = true;  // name@@VERSION, or no version at all
};

// Where an object calls one imported function: the relocation that fills its GOT slot, and the stub that
// jumps through it. One for each JUMP_SLOT and each GLOB_DAT relocation that names a function or a symbol
// without a type. The symbol always comes from the relocation of the slot that the stub's own jump reads,
// never from the stub's index: IRELATIVE relocations may stand in between.
struct CallSlot {
  enum class Relocation : uint8_t { jump_slot, glob_dat };

  std::string_view name;
  std::string_view version;  // from .gnu.version_r; empty where there is none
  ElfAddr slot;              // address of the GOT entry, 8 bytes
  Relocation relocation = Relocation::jump_slot;
  std::optional<ElfAddr>
      stub;  // where a call lands: .plt.sec before .plt, .plt.got for a GLOB_DAT; none with -fno-plt
  // Besides the stub the text holds `call *slot(%rip)`, `jmp *slot(%rip)`, or a load of it into a register
  // that is called soon behind that, as compilers do for loops.
  bool called_directly = false;
  // Each place outside the stubs whose bytes read `jmp *slot(%rip)`, as the address of the opcode byte ff; a
  // prefix may stand before it, and the instruction ends 6 bytes later. Candidates: that an instruction
  // stands there is not verified, which takes disassembling the containing function from its start.
  std::vector<ElfAddr> tail_jumps;
  // The same of `mov slot(%rip), %reg`, where the address may be of use for anything. Known once direct
  // references are.
  std::vector<ElfAddr> loads;
};

using WantedSlot = std::function<bool(const CallSlot&)>;

// An R_X86_64_IRELATIVE relocation: the slot receives what the resolver returns.
struct IrelativeSlot {
  ElfAddr slot;
  ElfAddr resolver;
};

}  // namespace rtrace::elf
