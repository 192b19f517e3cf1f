#include "rtrace/arch/emulate.h"

#include <bit>
#include <cstring>

#include "encoding.h"
#include "rtrace/arch/insn.h"

namespace rtrace::arch {
namespace {

constexpr uint64_t kCarry = 1 << 0, kParity = 1 << 2, kAdjust = 1 << 4, kZero = 1 << 6, kSign = 1 << 7,
                   kOverflow = 1 << 11;
constexpr uint64_t kArithmetic = kCarry | kParity | kAdjust | kZero | kSign | kOverflow;

// A jump to an address beyond this may fault at the jump itself (it need not be canonical): the instruction
// has to run to fault as it would.
constexpr uint64_t kAddressEnd = uint64_t{1} << 47;

uint64_t flag(bool on, uint64_t bit) {
  return on ? bit : 0;
}

// SDM volume 1, 3.4.3.1. `left` op `right` = `result`; for a subtraction carry means borrow.
uint64_t arithmetic_flags(uint64_t left, uint64_t right, uint64_t result, bool subtract) {
  uint64_t overflow_bits = subtract ? (left ^ right) & (left ^ result) : (left ^ result) & (right ^ result);
  return flag(subtract ? left < right : result < left, kCarry) |
         flag(std::popcount(static_cast<uint8_t>(result)) % 2 == 0, kParity) |
         flag(((left ^ right ^ result) & 0x10) != 0, kAdjust) | flag(result == 0, kZero) |
         flag(result >> 63 != 0, kSign) | flag(overflow_bits >> 63 != 0, kOverflow);
}

void apply_to_sp(const Emulation& emulation, Regs& regs) {
  bool subtract = emulation.kind == Emulation::Kind::sub_from_sp;
  uint64_t left = regs.raw.rsp;
  auto right = static_cast<uint64_t>(emulation.immediate);
  uint64_t result = subtract ? left - right : left + right;
  regs.raw.rsp = result;
  regs.raw.eflags = (regs.raw.eflags & ~kArithmetic) | arithmetic_flags(left, right, result, subtract);
}

// REX.W 81 or 83 with /0 (add) or /5 (sub) on rsp.
std::optional<Emulation> stack_adjustment(const Encoding& encoding, std::span<const std::byte> bytes,
                                          uint8_t length) {
  if (!encoding.is(0, 0x81) && !encoding.is(0, 0x83)) return std::nullopt;
  bool on_rsp = encoding.mod() == 3 && encoding.rm() == 4 && !encoding.rex_b() && encoding.rex_w();
  if (!on_rsp || encoding.lock || (encoding.reg() != 0 && encoding.reg() != 5)) return std::nullopt;
  Emulation emulation;
  emulation.kind = encoding.reg() == 0 ? Emulation::Kind::add_to_sp : Emulation::Kind::sub_from_sp;
  emulation.length = length;
  const std::byte* immediate = bytes.data() + *encoding.modrm_at + 1;
  if (encoding.code == 0x83) {
    emulation.immediate = std::to_integer<int8_t>(*immediate);
  } else {
    int32_t value;
    std::memcpy(&value, immediate, sizeof value);
    emulation.immediate = value;
  }
  return emulation;
}

std::optional<Emulation> emulated_return(const Encoding& encoding, std::span<const std::byte> bytes,
                                         uint8_t length) {
  Emulation emulation{.kind = Emulation::Kind::ret, .length = length, .target = {}, .immediate = 0};
  if (encoding.code == 0xc2) {
    uint16_t popped;
    std::memcpy(&popped, bytes.data() + encoding.opcode_at + 1, sizeof popped);
    emulation.immediate = popped;
  }
  return emulation;
}

}  // namespace

std::optional<Emulation> emulation_for(std::span<const std::byte> bytes, VirtAddr address) {
  std::optional<Insn> insn = decode(bytes, address);
  if (!insn) return std::nullopt;
  Encoding encoding = *parse_encoding(bytes);
  switch (insn->kind) {
    case Insn::Kind::nop:
      if (insn->length == 1) return std::nullopt;
      return Emulation{Emulation::Kind::skip, insn->length, {}, 0};
    case Insn::Kind::jump:
      if (*insn->target == address + 1) return std::nullopt;
      return Emulation{Emulation::Kind::jump, insn->length, *insn->target, 0};
    case Insn::Kind::jump_indirect:
      // With a segment prefix the word lies elsewhere; a PLT stub has none but bnd or notrack (3e, whose base
      // is 0).
      if (!insn->rip_reference || encoding.address32 || encoding.segment_based) return std::nullopt;
      return Emulation{Emulation::Kind::jump_through, insn->length, *insn->rip_reference, 0};
    case Insn::Kind::ret:
      return emulated_return(encoding, bytes, insn->length);
    case Insn::Kind::other:
      return stack_adjustment(encoding, bytes, insn->length);
    default:
      return std::nullopt;
  }
}

bool emulate(const Emulation& emulation, VirtAddr address, Regs& regs, const Memory& memory) {
  VirtAddr pc = address + emulation.length;
  if (!emulation.registers_only()) {
    bool returns = emulation.kind == Emulation::Kind::ret;
    auto word = memory.read_value<uint64_t>(returns ? regs.sp() : emulation.target);
    if (!word || *word >= kAddressEnd) return false;
    pc = {*word};
  }
  if (emulation.kind == Emulation::Kind::jump) pc = emulation.target;
  if (pc == address + 1) return false;  // would read as "not yet passed"

  if (emulation.kind == Emulation::Kind::add_to_sp || emulation.kind == Emulation::Kind::sub_from_sp)
    apply_to_sp(emulation, regs);
  if (emulation.kind == Emulation::Kind::ret)
    regs.raw.rsp += sizeof(uint64_t) + static_cast<uint64_t>(emulation.immediate);
  regs.set_pc(pc);
  return true;
}

}  // namespace rtrace::arch
