/* register_calls N: calls add() N times through its stub, and N times by a register that its GOT slot was
   loaded into, as compilers do in front of a loop. Of twice(), which is called through its stub N times, only
   the address is loaded. */
#include <stdio.h>
#include <stdlib.h>

#include "fixture.h"

static int (*kept)(int);

__attribute__((noipa)) static long by_register(long count) {
  register long sum __asm__("r13") = 0;
  __asm__ volatile(
      "mov %%rsp, %%r14\n\t"
      "sub $256, %%rsp\n\t"
      "and $-16, %%rsp\n\t"
      "mov add@GOTPCREL(%%rip), %%r12\n\t"
      "mov %[count], %%rbx\n"
      "1:\n\t"
      "mov %%ebx, %%edi\n\t"
      "mov $1, %%esi\n\t"
      "call *%%r12\n\t"
      "cltq\n\t"
      "add %%rax, %[sum]\n\t"
      "dec %%rbx\n\t"
      "jnz 1b\n\t"
      "mov %%r14, %%rsp"
      : [sum] "+r"(sum)
      : [count] "r"(count)
      : "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r14", "memory", "cc");
  return sum;
}

__attribute__((noipa)) static void keep(void) {
  __asm__ volatile("mov twice@GOTPCREL(%%rip), %0" : "=r"(kept));
}

int main(int argc, char** argv) {
  const long count = argc > 1 ? atol(argv[1]) : 10;
  long sum = by_register(count), doubled = 0;
  for (long i = 1; i <= count; i++) sum += add((int)i, 1), doubled += twice((int)i);
  keep();
  const long expected = count * (count + 3);
  return sum == expected && doubled == count * (count + 1) && kept == twice ? 0 : 1;
}
