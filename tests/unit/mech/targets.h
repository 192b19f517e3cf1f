// Functions with known first instructions, for the children of the test.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rtrace/base/address.h"

extern "C" {
int rtrace_test_push(int);
int rtrace_test_endbr(int);
int rtrace_test_sub(int);
int rtrace_test_lea(int);
int rtrace_test_call(int);
int rtrace_test_jmp(int);
int rtrace_test_mov(int);
extern const unsigned char rtrace_test_int3[], rtrace_test_invalid[], rtrace_test_slack[],
    rtrace_test_slack_end[];
}

asm(R"(
  .pushsection .text
  .p2align 4
  .globl rtrace_test_push, rtrace_test_endbr, rtrace_test_sub, rtrace_test_lea, rtrace_test_call
  .globl rtrace_test_jmp, rtrace_test_mov, rtrace_test_int3, rtrace_test_invalid, rtrace_test_slack
  .globl rtrace_test_slack_end
rtrace_test_push:
  push %rbx
  lea 1(%rdi), %eax
  pop %rbx
  ret
rtrace_test_endbr:
  endbr64
  lea 2(%rdi), %eax
  ret
rtrace_test_sub:
  sub $8, %rsp
  lea 3(%rdi), %eax
  add $8, %rsp
  ret
rtrace_test_lea:
  lea 1f(%rip), %rax
  mov (%rax), %eax
  add %edi, %eax
  ret
1:
  .long 4
rtrace_test_call:
  call 1f
  lea 2(%rax), %eax
  ret
1:
  lea 3(%rdi), %eax
  ret
rtrace_test_jmp:
  jmp 1f
  ud2
1:
  lea 6(%rdi), %eax
  ret
rtrace_test_mov:
  mov %edi, %eax
  add $7, %eax
  ret
rtrace_test_int3:
  int3
  ret
rtrace_test_invalid:
  .byte 0x06, 0x06
rtrace_test_slack:
  .skip 64, 0x90
rtrace_test_slack_end:
  .popsection
)");

namespace rtrace::tests {

struct Target {
  const char* name;
  int (*function)(int);
  int adds;  // to its argument
  bool emulated;

  VirtAddr address() const { return {reinterpret_cast<uint64_t>(function)}; }
};

inline constexpr Target kTargets[] = {
    {"push", rtrace_test_push, 1, false}, {"endbr64", rtrace_test_endbr, 2, true},
    {"sub", rtrace_test_sub, 3, true},    {"lea", rtrace_test_lea, 4, false},
    {"call", rtrace_test_call, 5, false}, {"jmp", rtrace_test_jmp, 6, true},
    {"mov", rtrace_test_mov, 7, false},
};

inline VirtAddr address_of(const unsigned char* label) {
  return {reinterpret_cast<uint64_t>(label)};
}

// The body of a child: how many of the targets gave a wrong answer.
inline int wrong_answers() {
  int wrong = 0;
  for (const Target& target : kTargets)
    for (int i = 100; i < 103; ++i) wrong += target.function(i) != i + target.adds;
  return wrong;
}
inline constexpr size_t kCallsOfEach = 3;

}  // namespace rtrace::tests
