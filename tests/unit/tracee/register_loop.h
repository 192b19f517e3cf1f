// A thread that fills its registers, waits, and then looks at them again.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>

namespace rtrace::tests {

struct RegisterLoop {
  std::atomic<uint32_t> state;  // 0: not there yet; kLooping; kGoOn: the test lets it leave
  uint32_t wide;                // 1: ymm registers are filled too
  uint64_t spoilt;              // out: how many general registers and flags differ
  long double pi;               // out: st0
  uint8_t pattern[16][32];      // in: of xmm0-15 or ymm0-15
  uint8_t after[16][32];        // out
  static constexpr uint32_t kLooping = 1, kGoOn = 2;

  void fill_patterns() {
    wide = __builtin_cpu_supports("avx") ? 1 : 0;
    for (unsigned i = 0; i < 16; ++i) {
      for (unsigned j = 0; j < 32; ++j) pattern[i][j] = static_cast<uint8_t>(i * 13 + j * 7 + 1);
      // Without AVX nobody writes the upper halves.
      if (wide == 0) std::memset(pattern[i] + 16, 0, 16);
    }
  }
  bool vectors_kept() const { return std::memcmp(pattern, after, sizeof pattern) == 0; }
};
static_assert(offsetof(RegisterLoop, wide) == 4 && offsetof(RegisterLoop, spoilt) == 8 &&
              offsetof(RegisterLoop, pi) == 16 && offsetof(RegisterLoop, pattern) == 32 &&
              offsetof(RegisterLoop, after) == 544);

extern "C" void rtrace_test_register_loop(RegisterLoop*);

// r15 holds the argument; every other general register but rsp holds its number in this list plus 0x100; DF
// is set. Weak, for each test that includes this brings one. The loop itself changes nothing but the
// arithmetic flags.
asm(R"(
  .pushsection .text
  .weak rtrace_test_register_loop
  .type rtrace_test_register_loop, @function
rtrace_test_register_loop:
  push %rbx
  push %rbp
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rdi, %r15
  fldpi
  cmpl $0, 4(%r15)
  je 1f
  .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
  vmovups (32+\n*32)(%r15), %ymm\n
  .endr
  jmp 2f
1:
  .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
  movups (32+\n*32)(%r15), %xmm\n
  .endr
2:
  .set number, 0x100
  .irp r, rax,rbx,rcx,rdx,rsi,rdi,rbp,r8,r9,r10,r11,r12,r13,r14
  mov $number, %\r
  .set number, number + 1
  .endr
  std
  movl $1, (%r15)
3:
  pause
  cmpl $2, (%r15)
  jne 3b
  pushf
  .set number, 0x100
  .irp r, rax,rbx,rcx,rdx,rsi,rdi,rbp,r8,r9,r10,r11,r12,r13,r14
  cmp $number, %\r
  je 4f
  incq 8(%r15)
4:
  .set number, number + 1
  .endr
  pop %rax
  test $0x400, %eax
  jnz 5f
  incq 8(%r15)
5:
  cld
  fstpt 16(%r15)
  cmpl $0, 4(%r15)
  je 6f
  .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
  vmovups %ymm\n, (544+\n*32)(%r15)
  .endr
  vzeroupper
  jmp 7f
6:
  .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
  movups %xmm\n, (544+\n*32)(%r15)
  .endr
7:
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbp
  pop %rbx
  ret
  .size rtrace_test_register_loop, . - rtrace_test_register_loop
  .popsection
)");

}  // namespace rtrace::tests
