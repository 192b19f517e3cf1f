/* Function symbols inside another function: `inside` and an SDT probe point into an instruction, `behind` to
   one. The status is 0 where the function still does what it is to do. */
__asm__(
    "  .text\n"
    "  .globl whole, inside, behind\n"
    "  .type whole, @function\n"
    "  .type inside, @function\n"
    "  .type behind, @function\n"
    "whole:\n"
    "  .cfi_startproc\n"
    "  lea 0x11223344(%rdi), %rax\n"
    "behind:\n"
    "  nop\n"
    "  ret\n"
    "  .cfi_endproc\n"
    "  .size whole, . - whole\n"
    "  .size behind, . - behind\n"
    "  .set inside, whole + 3\n"
    "  .size inside, 4\n"
    "  .pushsection .note.stapsdt, \"\", @note\n"
    "  .balign 4\n"
    "  .4byte 8, 2f - 1f, 3\n"
    "  .asciz \"stapsdt\"\n"
    "1:\n"
    "  .8byte whole + 3, 0, 0\n"
    "  .asciz \"inside\", \"probe\", \"\"\n"
    "2:\n"
    "  .balign 4\n"
    "  .popsection\n");
long whole(long);

int main(void) {
  for (int i = 0; i < 3; i++)
    if (whole(i) != 0x11223344 + i) return 1;
  return 0;
}
