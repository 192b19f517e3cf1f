// The registers that carry floating-point arguments and results (psABI 3.2.3: classes SSE and X87), and those
// where SDT probes may have some.
#pragma once

#include <sys/user.h>

#include <array>
#include <cstddef>
#include <cstring>

namespace rtrace::arch {

struct VectorRegs {
  std::array<std::array<std::byte, 16>, 16> xmm{};  // xmm0-xmm15, the low 128 bits
  std::array<std::array<std::byte, 16>, 2> st{};    // st0, st1: 80 bits each, the rest is padding

  // From what PTRACE_GETFPREGS gives: the FXSAVE image, in which st0-st7 and xmm0-xmm15 take 16 bytes each
  // and st0 is the top of the stack (Intel SDM vol. 1, 10.5.1).
  static VectorRegs from(const user_fpregs_struct& image) {
    VectorRegs regs;
    std::memcpy(regs.xmm.data(), image.xmm_space, sizeof regs.xmm);
    std::memcpy(regs.st.data(), image.st_space, sizeof regs.st);
    return regs;
  }
};

}  // namespace rtrace::arch
