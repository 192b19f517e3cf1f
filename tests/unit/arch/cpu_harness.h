// Runs machine code on the processor with chosen registers, flags and stack, and says what it left. The code
// ends by calling through the pointer at exit_slot(): the call pushes where it stands, which tells apart the
// places where code can end.
#pragma once

#include <cstdint>

namespace rtrace::arch {

// The assembly knows these offsets: 16 registers in encoding order (rax rcx rdx rbx rsp rbp rsi rdi r8 ...
// r15), flags, exit, two vectors.
struct CpuState {
  uint64_t gpr[16] = {};
  uint64_t flags = 0;
  uint64_t exit = 0;  // after a run: the address behind the `call *` that ended it
  uint64_t vectors[2][2] = {};
  bool operator==(const CpuState&) const = default;
};

enum Gpr : unsigned {
  kRax,
  kRcx,
  kRdx,
  kRbx,
  kRsp,
  kRbp,
  kRsi,
  kRdi,
  kR8,
  kR9,
  kR10,
  kR11,
  kR12,
  kR13,
  kR14,
  kR15
};

constexpr uint64_t kArithmeticFlags = 0x8d5;  // CF PF AF ZF SF OF

// `start.gpr[kRsp]` must be a writable stack of the code's own.
CpuState run_on_cpu(const CpuState& start, uint64_t entry);
uint64_t exit_handler();

}  // namespace rtrace::arch
