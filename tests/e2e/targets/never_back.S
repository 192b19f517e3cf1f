# takes: as gcc lays out a function whose seldom part ends in a call that does not return, and then leads behind
# the function's end, where nothing is.
  .text
  .globl takes
  .type takes, @function
  .balign 16
takes:
  .cfi_startproc
  pushq %rbx
  .cfi_def_cfa_offset 16
  .cfi_offset %rbx, -16
  movq %rdi, %rbx
  cmpq $1000, %rdi
  ja takes_cold
  testq %rbx, %rbx
  je 1f
  leaq 1(%rbx), %rax
  popq %rbx
  .cfi_def_cfa_offset 8
  ret
  .balign 16
1:
  .cfi_def_cfa_offset 16
  call abort@PLT
takes_end:
  .cfi_endproc
  .size takes, . - takes
  .nops 16

  .section .text.unlikely, "ax", @progbits
  .type takes_cold, @function
takes_cold:
  .cfi_startproc
  .cfi_def_cfa_offset 16
  .cfi_offset %rbx, -16
  call abort@PLT
  jmp takes_end
  .cfi_endproc
  .size takes_cold, . - takes_cold
  .section .note.GNU-stack, "", @progbits
