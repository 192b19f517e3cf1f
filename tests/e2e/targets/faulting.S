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

/* Where they fault: code that led into a function, or a stack that held this, would be in the way of a jump. */
        .section .data.rel.ro, "aw", @progbits
        .balign 8
        .globl  first_faults_at, second_faults_at
        .type   first_faults_at, @object
first_faults_at:
        .quad   first
        .size   first_faults_at, . - first_faults_at
        .type   second_faults_at, @object
second_faults_at:
        .quad   second_faults
        .size   second_faults_at, . - second_faults_at

        .section .note.GNU-stack, "", @progbits
