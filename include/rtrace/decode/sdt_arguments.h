// The arguments of an SDT probe: its note says where they are, their size and sign, in the words of the
// assembler ("-4@%edi 8@-24(%rbp) 8@$5").
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "rtrace/arch/regs.h"
#include "rtrace/arch/vector_regs.h"
#include "rtrace/base/memory.h"
#include "rtrace/decode/call_decoder.h"
#include "rtrace/decode/value.h"

namespace rtrace::decode {

// Where a symbol of the probe's object is in the process, for operands as `counter(%rip)`.
using SymbolAddress = std::function<std::optional<VirtAddr>(std::string_view)>;

class SdtArguments {
 public:
  // `operands` as the note has them, which may be anything: what makes no sense is an unreadable argument.
  SdtArguments(std::string_view operands, const Limits& limits, const SymbolAddress& symbols);

  // An argument lies in an xmm register.
  bool needs_vector_registers() const;
  size_t size() const { return operands_.size(); }

  // As they stand at the probe. Shown as guessed arguments of functions are, but with their own size and
  // sign.
  std::vector<Argument> read(const arch::Regs& regs, const Memory& memory,
                             const arch::VectorRegs* vectors = nullptr) const;

 private:
  struct Register {
    enum class Kind : uint8_t { none, general, vector };
    Kind kind = Kind::none;
    uint8_t number = 0;
    uint8_t size = 8;
    bool high_byte = false;  // ah bh ch dh
  };
  enum class Segment : uint8_t { none, fs, gs };
  struct Operand {
    enum class Kind : uint8_t { unknown, constant, direct, memory };
    Kind kind = Kind::unknown;
    uint8_t size = 8;
    bool is_signed = true;
    bool is_float = false;
    uint64_t constant = 0;  // or the displacement
    Register base, index;   // `base` is the operand itself where it is direct
    uint8_t scale = 1;
    Segment segment = Segment::none;
  };
  class Reader;

  static uint64_t value_of(const Register& source, const arch::Regs& regs);
  static VirtAddr address_of(const Operand& operand, const arch::Regs& regs);
  static std::optional<std::vector<std::byte>> bytes_of(const Operand& operand, const arch::Regs& regs,
                                                        const Memory& memory,
                                                        const arch::VectorRegs* vectors);
  Argument argument_of(const Operand& operand, const arch::Regs& regs, const Memory& memory,
                       const arch::VectorRegs* vectors) const;

  std::vector<Operand> operands_;
  Limits limits_;
};

}  // namespace rtrace::decode
