#include "rtrace/unwind/registers.h"

namespace rtrace::unwind {

Registers::Registers(const user_regs_struct& raw) : known_((uint32_t{1} << kCount) - 1) {
  value_ = {raw.rax, raw.rdx, raw.rcx, raw.rbx, raw.rsi, raw.rdi, raw.rbp, raw.rsp, raw.r8,
            raw.r9,  raw.r10, raw.r11, raw.r12, raw.r13, raw.r14, raw.r15, raw.rip};
}

}  // namespace rtrace::unwind
