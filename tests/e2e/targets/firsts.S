/* Functions that begin with every kind of instruction. They find rax = 1234, CF = 1, rcx = 3, and r8 and r9 leading
   to first_landing and first_target: see call_first. */
        .macro  first name
        .globl  first_\name
        .type   first_\name, @function
        .p2align 4
first_\name:
        .endm

        .macro  done name
        .size   first_\name, . - first_\name
        .endm

        .data
        .p2align 4
seventy_seven:
        .quad   77, 77

        .text
first push
        push    %rbx
        lea     1(%rdi), %rax
        pop     %rbx
        ret
done push
first push_imm
        push    $5
        pop     %rax
        add     %rdi, %rax
        ret
done push_imm
first push_mem
        push    seventy_seven(%rip)
        pop     %rax
        ret
done push_mem
first push_rsp
        push    %rsp
        pop     %rax
        sub     %rsp, %rax
        ret
done push_rsp
first pop
        pop     %rdx
        push    %rdx
        mov     %rdi, %rax
        ret
done pop
first lea_rip
        lea     seventy_seven(%rip), %rax
        mov     (%rax), %rax
        ret
done lea_rip
first mov_rip
        mov     seventy_seven(%rip), %rax
        ret
done mov_rip
first cmp_rip
        cmpq    $77, seventy_seven(%rip)
        sete    %al
        movzbl  %al, %eax
        ret
done cmp_rip
first mov_rsp
        mov     %rsp, %rdx
        mov     %rdi, %rax
        ret
done mov_rsp
first movabs
        movabs  $0x112233445566, %rax
        ret
done movabs
first sse_rip
        movdqa  seventy_seven(%rip), %xmm0
        movq    %xmm0, %rax
        ret
done sse_rip
first fs
        mov     %fs:0, %rax
        cmp     %rax, %fs:0
        sete    %al
        movzbl  %al, %eax
        ret
done fs
first jmp_short
        jmp     1f
        ud2
1:      lea     (%rdi,%rsi), %rax
        ret
done jmp_short
first jmp_near
        jmp     1f
        .skip   300, 0xcc
1:      lea     (%rdi,%rsi), %rax
        ret
done jmp_near
first jmp_tail
        jmp     local_target
done jmp_tail
first jmp_slot
        jmp     *twice_it@GOTPCREL(%rip)
done jmp_slot
first jmp_reg
        jmp     *%r8
done jmp_reg
first jmp_notrack
        notrack jmp *%r8
done jmp_notrack
first jmp_bnd
        .byte   0xf2, 0xeb, 0x02
        ud2
        mov     %rdi, %rax
        sub     %rsi, %rax
        ret
done jmp_bnd
first call
        call    1f
        ret
1:      lea     2(%rdi), %rax
        ret
done call
first call_pop
        call    1f
1:      pop     %rax
        lea     1b(%rip), %rdx
        cmp     %rdx, %rax
        sete    %al
        movzbl  %al, %eax
        ret
done call_pop
first call_slot
        call    *twice_it@GOTPCREL(%rip)
        inc     %rax
        ret
done call_slot
first call_reg
        call    *%r9
        inc     %rax
        ret
done call_reg
first ret
        ret
done ret
first ret_rep
        rep ret
done ret_rep
first ret_imm
        ret     $0
done ret_imm
first nop
        nop
        mov     %rdi, %rax
        ret
done nop
first nop2
        .byte   0x66, 0x90
        mov     %rdi, %rax
        ret
done nop2
first nop5
        .byte   0x0f, 0x1f, 0x44, 0x00, 0x00
        lea     (%rdi,%rsi), %rax
        ret
done nop5
first nop10
        .byte   0x66, 0x2e, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00
        mov     %rdi, %rax
        ret
done nop10
first endbr64
        endbr64
        lea     (%rdi,%rsi), %rax
        ret
done endbr64
first test
        test    %rdi, %rdi
        jz      1f
        mov     %rdi, %rax
        ret
1:      xor     %eax, %eax
        ret
done test
first jc
        jc      1f
        xor     %eax, %eax
        ret
1:      mov     $1, %eax
        ret
done jc
first jnc_near
        jnc     1f
        mov     $2, %eax
        ret
        .skip   200, 0xcc
1:      xor     %eax, %eax
        ret
done jnc_near
first loop
        loop    1f
        ud2
1:      mov     %rcx, %rax
        ret
done loop
first jrcxz
        jrcxz   1f
        mov     $5, %eax
        ret
1:      xor     %eax, %eax
        ret
done jrcxz
first back_to_first
        dec     %rcx
        jnz     first_back_to_first
        mov     %rcx, %rax
        ret
done back_to_first
first back_to_second
        push    %rbx
1:      inc     %rdi
        dec     %rcx
        jnz     1b
        mov     %rdi, %rax
        pop     %rbx
        ret
done back_to_second
first sub_rsp
        sub     $24, %rsp
        mov     %rdi, (%rsp)
        mov     (%rsp), %rax
        add     $24, %rsp
        ret
done sub_rsp
first lea_rsp
        lea     -8(%rsp), %rsp
        mov     %rdi, (%rsp)
        mov     (%rsp), %rax
        lea     8(%rsp), %rsp
        ret
done lea_rsp
first enter
        enter   $16, $0
        mov     %rdi, -8(%rbp)
        mov     -8(%rbp), %rax
        leave
        ret
done enter
/* CF, and TF: nobody steps through this. */
first pushf
        pushf
        pop     %rax
        and     $0x101, %eax
        ret
done pushf
first adc
        adc     $0, %rdi
        mov     %rdi, %rax
        ret
done adc
first lahf
        lahf
        movzbl  %ah, %eax
        and     $1, %eax
        ret
done lahf
/* No system call has the number 1234: -ENOSYS. */
first syscall
        syscall
        ret
done syscall
first rdtsc
        rdtsc
        mov     $9, %eax
        ret
done rdtsc
first lock
        lock orq $0, seventy_seven(%rip)
        mov     seventy_seven(%rip), %rax
        ret
done lock
first cld
        cld
        mov     %rdi, %rax
        ret
done cld
first xchg
        xchg    %rdi, %rsi
        mov     %rdi, %rax
        ret
done xchg

local_target:
        lea     1(%rdi), %rax
        ret
landing:
        mov     $8, %eax
        ret
        .globl  twice_it
        .type   twice_it, @function
twice_it:
        lea     (%rdi,%rdi), %rax
        ret

/* long call_first(function, a, b) */
        .globl  call_first
        .type   call_first, @function
call_first:
        push    %rbx
        mov     %rdi, %rbx
        mov     %rsi, %rdi
        mov     %rdx, %rsi
        mov     $3, %ecx
        lea     landing(%rip), %r8
        mov     %r8, %r9
        mov     $1234, %eax
        stc
        call    *%rbx
        pop     %rbx
        ret
        .size   call_first, . - call_first

        .section .note.GNU-stack, "", @progbits
