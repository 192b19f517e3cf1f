#include "rtrace/arch/stack_operand.h"

#include <cstring>

#include "encoding.h"

namespace rtrace::arch {
namespace {

constexpr uint8_t kStackPointer = 4, kBasePointer = 5;  // as bases in ModRM and SIB
constexpr int64_t kGreatestVector = 64;                 // bytes

// ModRM's r/m, or the base in the SIB byte that follows it. nullopt where it names no memory by a register.
std::optional<uint8_t> base_of(const Encoding& encoding, std::span<const std::byte> insn) {
  if (!encoding.modrm_at || encoding.mod() == 3) return std::nullopt;
  uint8_t base = encoding.rm();
  if (base == kStackPointer) {
    if (*encoding.modrm_at + 1 >= insn.size()) return std::nullopt;
    base = std::to_integer<uint8_t>(insn[*encoding.modrm_at + 1]) & 7;
  }
  const bool none = base == kBasePointer && encoding.mod() == 0;  // a displacement alone, or rip's
  return none ? std::nullopt : std::optional(base);
}

}  // namespace

std::optional<StackOperand> stack_operand(std::span<const std::byte> insn) {
  const auto encoding = parse_encoding(insn);
  if (!encoding || (encoding->form == Encoding::Form::legacy && encoding->rex_b())) return std::nullopt;
  const auto base = base_of(*encoding, insn);
  if (!base || (*base != kStackPointer && *base != kBasePointer)) return std::nullopt;
  StackOperand operand;
  operand.base = *base == kStackPointer ? StackOperand::Base::rsp : StackOperand::Base::rbp;
  const size_t at = *encoding->modrm_at + (encoding->rm() == kStackPointer ? 2 : 1);
  if (encoding->mod() == 1 && at < insn.size()) {
    operand.displacement = std::to_integer<int8_t>(insn[at]);
    if (encoding->form == Encoding::Form::evex) operand.displacement *= kGreatestVector;
  } else if (int32_t wide = 0; encoding->mod() == 2 && at + sizeof wide <= insn.size()) {
    std::memcpy(&wide, insn.data() + at, sizeof wide);
    operand.displacement = wide;
  }
  return operand;
}

}  // namespace rtrace::arch
