// The registers that carry floating-point arguments and results (psABI 3.2.3: classes SSE and X87), and those
// where SDT probes may have some.
#pragma once

#include <sys/user.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace rtrace::arch {

struct VectorRegs {
  std::array<std::array<std::byte, 16>, 16> xmm{};   // xmm0-xmm15, the low 128 bits
  std::array<std::array<std::byte, 16>, 2> st{};     // st0, st1: 80 bits each, the rest is padding
  std::array<std::array<std::byte, 16>, 8> upper{};  // of ymm0-ymm7, the high 128 bits
  uint8_t has_upper = 0;                             // 0 where only FXSAVE's image could be had

  // From what PTRACE_GETFPREGS gives: the FXSAVE image, in which st0-st7 and xmm0-xmm15 take 16 bytes each
  // and st0 is the top of the stack (Intel SDM vol. 1, 10.5.1).
  static VectorRegs from(const user_fpregs_struct& image) {
    VectorRegs regs;
    std::memcpy(regs.xmm.data(), image.xmm_space, sizeof regs.xmm);
    std::memcpy(regs.st.data(), image.st_space, sizeof regs.st);
    return regs;
  }
  // From what PTRACE_GETREGSET gives for NT_X86_XSTATE: the XSAVE image, which begins with that of FXSAVE.
  // The kernel lays it out in the standard format, in which AVX state lies at 576 (Intel SDM vol. 1, 13.4.3
  // and 13.5.1), and a component whose bit in XSTATE_BV is clear is in its initial state: zero.
  static VectorRegs from(std::span<const std::byte> image) {
    constexpr size_t kXstateBv = 512, kAvx = 576, kXmm = 160, kSt = 32;
    constexpr uint64_t kSse = 2, kAvxBit = 4, kX87 = 1;
    VectorRegs regs;
    uint64_t present = 0;
    if (image.size() < kAvx) return regs;
    std::memcpy(&present, image.data() + kXstateBv, sizeof present);
    if ((present & (kSse | kAvxBit)) != 0) std::memcpy(regs.xmm.data(), image.data() + kXmm, sizeof regs.xmm);
    if ((present & kX87) != 0) std::memcpy(regs.st.data(), image.data() + kSt, sizeof regs.st);
    regs.has_upper = image.size() >= kAvx + sizeof regs.upper;
    if (regs.has_upper && (present & kAvxBit) != 0)
      std::memcpy(regs.upper.data(), image.data() + kAvx, sizeof regs.upper);
    return regs;
  }
};

}  // namespace rtrace::arch
