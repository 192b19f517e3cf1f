/* own_convention N: N calls of clobbers(), which preserves no register, as compilers of some languages have
   it (Go, OCaml). With -DGO the file says that it is Go's. */
#include <stdio.h>
#include <stdlib.h>

#ifdef GO
__asm__(".pushsection .go.buildinfo, \"aw\"\n\t.quad 0\n\t.popsection");
#endif

long clobbers(long number);
__asm__(
    ".pushsection .text\n\t.globl clobbers\n\t.type clobbers, @function\n"
    "clobbers:\n\tlea 1(%rdi), %rax\n\tmov %rax, %rbx\n\tmov %rax, %r12\n\txor %r13, %r13\n\tret\n"
    "\t.size clobbers, . - clobbers\n\t.popsection");

static long call(long number) {
  long result;
  __asm__ volatile("call clobbers"
                   : "=a"(result), "+D"(number)
                   :
                   : "rbx", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
                     "memory", "cc");
  return result;
}

int main(int argc, char** argv) {
  const long times = argc > 1 ? atol(argv[1]) : 1;
  long sum = 0;
  for (long i = 0; i < times; i++) sum += call(i);
  printf("%ld\n", sum);
  return 0;
}
