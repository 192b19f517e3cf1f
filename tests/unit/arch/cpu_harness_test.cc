#include "arch/cpu_harness.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstddef>

extern "C" {
// One run at a time: the state lives here because the code under test owns every register.
rtrace::arch::CpuState rtrace_cpu_state;
uint64_t rtrace_cpu_entry;
uint64_t rtrace_cpu_saved_sp;
void rtrace_cpu_run();
void rtrace_cpu_exit();
}

static_assert(offsetof(rtrace::arch::CpuState, flags) == 128 &&
              offsetof(rtrace::arch::CpuState, exit) == 136 &&
              offsetof(rtrace::arch::CpuState, vectors) == 144);

asm(R"(
    .text
    .globl rtrace_cpu_run
    .hidden rtrace_cpu_run
    .type rtrace_cpu_run, @function
rtrace_cpu_run:
    push %rbx
    push %rbp
    push %r12
    push %r13
    push %r14
    push %r15
    mov %rsp, rtrace_cpu_saved_sp(%rip)
    movups 144 + rtrace_cpu_state(%rip), %xmm0
    movups 160 + rtrace_cpu_state(%rip), %xmm1
    push 128 + rtrace_cpu_state(%rip)
    popfq
    mov 0 + rtrace_cpu_state(%rip), %rax
    mov 8 + rtrace_cpu_state(%rip), %rcx
    mov 16 + rtrace_cpu_state(%rip), %rdx
    mov 24 + rtrace_cpu_state(%rip), %rbx
    mov 32 + rtrace_cpu_state(%rip), %rsp
    mov 40 + rtrace_cpu_state(%rip), %rbp
    mov 48 + rtrace_cpu_state(%rip), %rsi
    mov 56 + rtrace_cpu_state(%rip), %rdi
    mov 64 + rtrace_cpu_state(%rip), %r8
    mov 72 + rtrace_cpu_state(%rip), %r9
    mov 80 + rtrace_cpu_state(%rip), %r10
    mov 88 + rtrace_cpu_state(%rip), %r11
    mov 96 + rtrace_cpu_state(%rip), %r12
    mov 104 + rtrace_cpu_state(%rip), %r13
    mov 112 + rtrace_cpu_state(%rip), %r14
    mov 120 + rtrace_cpu_state(%rip), %r15
    jmp *rtrace_cpu_entry(%rip)
    .size rtrace_cpu_run, . - rtrace_cpu_run

    .globl rtrace_cpu_exit
    .hidden rtrace_cpu_exit
    .type rtrace_cpu_exit, @function
rtrace_cpu_exit:
    mov %rax, 0 + rtrace_cpu_state(%rip)
    mov %rcx, 8 + rtrace_cpu_state(%rip)
    mov %rdx, 16 + rtrace_cpu_state(%rip)
    mov %rbx, 24 + rtrace_cpu_state(%rip)
    mov %rbp, 40 + rtrace_cpu_state(%rip)
    mov %rsi, 48 + rtrace_cpu_state(%rip)
    mov %rdi, 56 + rtrace_cpu_state(%rip)
    mov %r8, 64 + rtrace_cpu_state(%rip)
    mov %r9, 72 + rtrace_cpu_state(%rip)
    mov %r10, 80 + rtrace_cpu_state(%rip)
    mov %r11, 88 + rtrace_cpu_state(%rip)
    mov %r12, 96 + rtrace_cpu_state(%rip)
    mov %r13, 104 + rtrace_cpu_state(%rip)
    mov %r14, 112 + rtrace_cpu_state(%rip)
    mov %r15, 120 + rtrace_cpu_state(%rip)
    pop %rax
    mov %rax, 136 + rtrace_cpu_state(%rip)
    mov %rsp, 32 + rtrace_cpu_state(%rip)
    mov rtrace_cpu_saved_sp(%rip), %rsp
    pushfq
    pop 128 + rtrace_cpu_state(%rip)
    movups %xmm0, 144 + rtrace_cpu_state(%rip)
    movups %xmm1, 160 + rtrace_cpu_state(%rip)
    cld
    pop %r15
    pop %r14
    pop %r13
    pop %r12
    pop %rbp
    pop %rbx
    ret
    .size rtrace_cpu_exit, . - rtrace_cpu_exit
)");

namespace rtrace::arch {

CpuState run_on_cpu(const CpuState& start, uint64_t entry) {
  rtrace_cpu_state = start;
  rtrace_cpu_entry = entry;
  rtrace_cpu_run();
  return rtrace_cpu_state;
}

uint64_t exit_handler() {
  return std::bit_cast<uint64_t>(&rtrace_cpu_exit);
}

namespace cpu_harness_test {
namespace {

TEST(CpuHarness, EveryRegisterGoesInAndComesOut) {
  alignas(16) std::array<uint64_t, 64> stack{};
  CpuState start;
  for (uint64_t i = 0; i < 16; ++i) start.gpr[i] = uint64_t{0x1111111111111111} * i;
  stack[32] = 0x5555;  // stands for the exit's pushed address: the code under test is the exit handler itself
  start.gpr[kRsp] = std::bit_cast<uint64_t>(&stack[32]);
  start.flags = 0x246 | 0x800;
  start.vectors[0][1] = 7;
  start.vectors[1][0] = 8;
  CpuState end = run_on_cpu(start, exit_handler());
  CpuState expected = start;
  expected.gpr[kRsp] += 8;
  expected.exit = 0x5555;
  EXPECT_TRUE(end == expected);
}

}  // namespace
}  // namespace cpu_harness_test
}  // namespace rtrace::arch
