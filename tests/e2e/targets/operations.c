// Calls interpret() N times, which is a loop whose head is its second instruction, and which only a table
// leads back to, as gcc makes it of a computed goto: each of its operations jumps to the next one's.
#include <stdio.h>
#include <stdlib.h>

int interpret(const char* operations);  // how many there are before the one that ends

// Within five bytes of the function's beginning.
__asm__(
    ".text\n"
    ".globl interpret\n"
    ".type interpret, @function\n"
    "interpret:\n"
    "  .cfi_startproc\n"
    "  or $-1, %eax\n"
    ".Lnext:\n"
    "  inc %eax\n"
    "  movzbl (%rdi), %edx\n"
    "  inc %rdi\n"
    "  lea .Ltable(%rip), %rcx\n"
    "  jmp *(%rcx,%rdx,8)\n"
    ".Lend:\n"
    "  ret\n"
    "  .cfi_endproc\n"
    ".size interpret, . - interpret\n"
    ".section .data.rel.ro, \"aw\"\n"
    ".balign 8\n"
    ".Ltable: .quad .Lend, .Lnext\n"
    ".text\n");

int main(int argc, char** argv) {
  int sum = 0;
  for (int i = 0; i < (argc > 1 ? atoi(argv[1]) : 1); ++i) sum += interpret("\1\1\1");
  printf("%d\n", sum);
}
