// What an instruction names of the stack.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace rtrace::arch {

// Memory at rsp or rbp, and a displacement; an index that is added is left out.
struct StackOperand {
  enum class Base : uint8_t { rsp, rbp };
  Base base = Base::rsp;
  int64_t displacement = 0;
  bool operator==(const StackOperand&) const = default;
};

// Of one whole instruction, address computations (lea) included. Where the vector length scales the
// displacement (EVEX) the greatest that it may be; a VEX instruction with r12 or r13 is taken for one with
// rsp or rbp. nullopt where it names no such memory.
std::optional<StackOperand> stack_operand(std::span<const std::byte> insn);

}  // namespace rtrace::arch
