/* first(p), second(p): what p points to, which the first or the second instruction reads; 0 where that is skipped.
   Each has room for a jump, and call frame information as a compiler makes it. */
        .text
        .globl  first
        .type   first, @function
first:
        .cfi_startproc
        movq    (%rdi), %rdx
        xorl    %eax, %eax
        testq   %rdi, %rdi
        je      1f
        movq    %rdx, %rax
        andl    $63, %eax
1:      ret
        .cfi_endproc
        .size   first, . - first

        .globl  second
        .type   second, @function
second:
        .cfi_startproc
        xorl    %edx, %edx
second_faults:
        movq    (%rdi), %rdx
        movl    %edx, %eax
        andl    $63, %eax
        ret
        .cfi_endproc
        .size   second, . - second

/* How far behind its beginning it faults: code or data that led into a function, or a stack that held the place,
   would be in the way of a jump. */
        .section .rodata
        .balign 8
        .globl  second_faults_behind
        .type   second_faults_behind, @object
second_faults_behind:
        .quad   second_faults - second
        .size   second_faults_behind, . - second_faults_behind

        .section .note.GNU-stack, "", @progbits
