// The parts of a wrapper's stub, as data of the tracer, which puts them together and fills in the fields
// (mech/wrapper_stub.h). Frame: struct WrapperFrame, right below the saved rbp.
#include "rtrace/agent/layout.h"

  .section .rodata

  .macro PART name
  .globl rtrace_stub_\name
rtrace_stub_\name:
  .endm
  .macro FIELD name, size
  .globl rtrace_stub_\name
  .set rtrace_stub_\name, . - \size
  .endm
#define FRAME(field) (field - RTRACE_FRAME_SIZE)(%rbp)

PART frame
  push %rbp
  mov %rsp, %rbp
PART save
  sub $RTRACE_FRAME_SIZE, %rsp
  mov %rdi, FRAME(RTRACE_FRAME_ARGUMENTS)
  mov %rsi, FRAME(RTRACE_FRAME_ARGUMENTS + 8)
  mov %rdx, FRAME(RTRACE_FRAME_ARGUMENTS + 16)
  mov %rcx, FRAME(RTRACE_FRAME_ARGUMENTS + 24)
  mov %r8, FRAME(RTRACE_FRAME_ARGUMENTS + 32)
  mov %r9, FRAME(RTRACE_FRAME_ARGUMENTS + 40)
  mov %rax, FRAME(RTRACE_FRAME_RAX)
  mov %r10, FRAME(RTRACE_FRAME_R10)
  mov %r11, FRAME(RTRACE_FRAME_R11)
  mov (%rbp), %rax
  mov %rbx, FRAME(RTRACE_FRAME_SAVED)
  mov %rax, FRAME(RTRACE_FRAME_SAVED + 8)
  mov %r12, FRAME(RTRACE_FRAME_SAVED + 16)
  mov %r13, FRAME(RTRACE_FRAME_SAVED + 24)
  mov %r14, FRAME(RTRACE_FRAME_SAVED + 32)
  mov %r15, FRAME(RTRACE_FRAME_SAVED + 40)

PART save_vectors
  sub $RTRACE_VECTORS_SIZE, %rsp
  movups %xmm0, (%rsp)
  movups %xmm1, 16(%rsp)
  movups %xmm2, 32(%rsp)
  movups %xmm3, 48(%rsp)
  movups %xmm4, 64(%rsp)
  movups %xmm5, 80(%rsp)
  movups %xmm6, 96(%rsp)
  movups %xmm7, 112(%rsp)

PART enter
  lea -RTRACE_FRAME_SIZE(%rbp), %rdi
  mov $0, %esi
FIELD enter_function, 4
  mov $0, %edx
FIELD enter_passed, 4
  movabs $0, %rax
FIELD enter_address, 8
  call *%rax

// The same for agent/quick.S, which leaves all other registers alone: from the frame to the function.
PART quick_enter
  sub $RTRACE_FRAME_SIZE, %rsp
  mov %rdx, FRAME(RTRACE_FRAME_ARGUMENTS + 16)
  mov %rcx, FRAME(RTRACE_FRAME_ARGUMENTS + 24)
  mov %rax, FRAME(RTRACE_FRAME_RAX)
  mov %r10, FRAME(RTRACE_FRAME_R10)
  mov %r11, FRAME(RTRACE_FRAME_R11)
  movabs $0, %r11
FIELD quick_enter_plan, 8
  movabs $0, %rax
FIELD quick_enter_address, 8
  call *%rax
  mov FRAME(RTRACE_FRAME_ARGUMENTS + 16), %rdx
  mov FRAME(RTRACE_FRAME_ARGUMENTS + 24), %rcx
  mov FRAME(RTRACE_FRAME_RAX), %rax
  mov FRAME(RTRACE_FRAME_R10), %r10
  mov FRAME(RTRACE_FRAME_R11), %r11

// Arguments in memory, of which rax tells the bytes, whole words, lie where the function expects them, right above its
// return address.
  .macro PASS_BELOW place
  lea \place(%rbp), %rsp
  sub %rax, %rsp
  and $-16, %rsp
  mov %eax, %ecx
  shr $3, %ecx
  mov %rsp, %rdi
  lea 16(%rbp), %rsi
  rep movsq
  .endm
PART pass
  PASS_BELOW -RTRACE_FRAME_SIZE

PART restore
  mov FRAME(RTRACE_FRAME_ARGUMENTS), %rdi
  mov FRAME(RTRACE_FRAME_ARGUMENTS + 8), %rsi
  mov FRAME(RTRACE_FRAME_ARGUMENTS + 16), %rdx
  mov FRAME(RTRACE_FRAME_ARGUMENTS + 24), %rcx
  mov FRAME(RTRACE_FRAME_ARGUMENTS + 32), %r8
  mov FRAME(RTRACE_FRAME_ARGUMENTS + 40), %r9
  mov FRAME(RTRACE_FRAME_RAX), %rax
  mov FRAME(RTRACE_FRAME_R10), %r10
  mov FRAME(RTRACE_FRAME_R11), %r11

// The caller's frame is left behind a borrowed one (mech/wrapper_stub.h). Both calls are there for the
// processor's prediction of returns: that of the function has an entry of its own, and those behind it meet
// theirs. What is read below the stack pointer lies in the red zone.
PART borrow
  .byte 0x48, 0x8d, 0xa5  // lea below(%rbp), %rsp
  .long 0
FIELD borrow_below, 4
  .byte 0xe8
  .long 0
FIELD borrow_distance, 4
PART resume
  .byte 0x48, 0x89, 0xac, 0x24  // mov %rbp, above(%rsp)
  .long 0
FIELD resume_store, 4
  .byte 0x48, 0x8d, 0xac, 0x24  // lea above(%rsp), %rbp
  .long 0
FIELD resume_above, 4

// Arguments in memory again. What is kept moves below the frame, for the caller's registers lie where
// unwinders look for them, as if they had been pushed behind rbp.
#define KEPT_LOW (-RTRACE_FRAME_SIZE - 32)
PART spread
  PASS_BELOW KEPT_LOW
  mov FRAME(RTRACE_FRAME_KEPT), %rax
  mov %rax, KEPT_LOW(%rbp)
  mov FRAME(RTRACE_FRAME_KEPT + 8), %rax
  mov %rax, (KEPT_LOW + 8)(%rbp)
  mov FRAME(RTRACE_FRAME_KEPT + 16), %rax
  mov %rax, (KEPT_LOW + 16)(%rbp)
  mov FRAME(RTRACE_FRAME_KEPT + 24), %rax
  mov %rax, (KEPT_LOW + 24)(%rbp)
  mov %rbx, -40(%rbp)
  mov %r12, -32(%rbp)
  mov %r13, -24(%rbp)
  mov %r14, -16(%rbp)
  mov %r15, -8(%rbp)
// Behind `restore`. No call, for the prediction of returns: the code there makes one, of which nothing
// returns. The word in the frame is for whoever looks for our addresses on the stack.
PART lend
  .byte 0, 0, 0  // lea resume_called(%rip), %register
FIELD lend_lea, 3
  .long 0
FIELD lend_distance, 4
  .byte 0, 0, 0  // mov %register, FRAME(RTRACE_FRAME_R11)
FIELD lend_store, 3
  .long RTRACE_FRAME_R11 - RTRACE_FRAME_SIZE
// Where the function returns to, without a call.
PART seem_called
  .byte 0x68  // push
  .long 0
FIELD seem_called_low, 4
PART seem_called_whole
  .byte 0xc7, 0x44, 0x24, 0x04  // movl high, 4(%rsp)
  .long 0
FIELD seem_called_high, 4
PART resume_called
  .byte 0, 0, 0  // mov place(%rbp), %register
FIELD resume_called_load, 3
  .long 0
FIELD resume_called_place, 4
  push KEPT_LOW(%rbp)
  pop -32(%rbp)
  push (KEPT_LOW + 8)(%rbp)
  pop -24(%rbp)
  push (KEPT_LOW + 16)(%rbp)
  pop -16(%rbp)
  push (KEPT_LOW + 24)(%rbp)
  pop -8(%rbp)

// What stays on the stack while the function runs: four words, or the frame.
PART keep_words
  lea (RTRACE_FRAME_KEPT - RTRACE_FRAME_SIZE)(%rbp), %rsp
PART keep_frame
  lea -RTRACE_FRAME_SIZE(%rbp), %rsp

PART call
  .byte 0xe8
  .long 0
FIELD call_distance, 4

// All general registers reach the caller as the function has left them: where a compiler sees both it relies
// on what the one does not touch (gcc's -fipa-ra).
PART returned
  lea -RTRACE_FRAME_SIZE(%rbp), %rsp
  mov %rax, FRAME(RTRACE_FRAME_RESULT)
  mov %rdx, FRAME(RTRACE_FRAME_R11)
  mov %rcx, FRAME(RTRACE_FRAME_SAVED)
  mov %rsi, FRAME(RTRACE_FRAME_SAVED + 8)
  mov %rdi, FRAME(RTRACE_FRAME_SAVED + 16)
  mov %r8, FRAME(RTRACE_FRAME_SAVED + 24)
  mov %r9, FRAME(RTRACE_FRAME_SAVED + 32)
  mov %r10, FRAME(RTRACE_FRAME_R10)
  mov %r11, FRAME(RTRACE_FRAME_SAVED + 40)

PART save_vector_results
  sub $32, %rsp
  movups %xmm0, (%rsp)
  movups %xmm1, 16(%rsp)

PART leave
  lea -RTRACE_FRAME_SIZE(%rbp), %rdi
  mov $0, %esi
FIELD leave_function, 4
  movabs $0, %rax
FIELD leave_address, 8
  call *%rax
  mov FRAME(RTRACE_FRAME_RESULT), %rax
  mov FRAME(RTRACE_FRAME_R11), %rdx
  mov FRAME(RTRACE_FRAME_SAVED), %rcx
  mov FRAME(RTRACE_FRAME_SAVED + 8), %rsi
  mov FRAME(RTRACE_FRAME_SAVED + 16), %rdi
  mov FRAME(RTRACE_FRAME_SAVED + 24), %r8
  mov FRAME(RTRACE_FRAME_SAVED + 32), %r9
  mov FRAME(RTRACE_FRAME_R10), %r10
  mov FRAME(RTRACE_FRAME_SAVED + 40), %r11
// And this for agent/quick.S.
PART quick_leave
  lea -RTRACE_FRAME_SIZE(%rbp), %rsp
  mov %rax, FRAME(RTRACE_FRAME_RESULT)
  mov %rdx, FRAME(RTRACE_FRAME_R11)
  mov %rcx, FRAME(RTRACE_FRAME_SAVED)
  mov %r10, FRAME(RTRACE_FRAME_R10)
  mov %r11, FRAME(RTRACE_FRAME_SAVED + 40)
  movabs $0, %r11
FIELD quick_leave_plan, 8
  movabs $0, %rax
FIELD quick_leave_address, 8
  call *%rax
  mov FRAME(RTRACE_FRAME_RESULT), %rax
  mov FRAME(RTRACE_FRAME_R11), %rdx
  mov FRAME(RTRACE_FRAME_SAVED), %rcx
  mov FRAME(RTRACE_FRAME_R10), %r10
  mov FRAME(RTRACE_FRAME_SAVED + 40), %r11
PART unframe
  leave
PART ret
  ret
// Where borrow's call goes. A call to the next instruction would be no call to the prediction.
PART launch
  call 1f
  int3
1:
  movabs $0, %rax
FIELD launch_gadget, 8
  mov %rax, (%rsp)
  mov FRAME(RTRACE_FRAME_RAX), %rax
  mov (%rbp), %rbp
// The same where a call of ours stands in front of where the function returns to: it leads to the function.
// That and where the frame behind it is described are words on the stack by then. Once the call is to go,
// the jump leads to seem_called.
PART foretell
  movabs $0, %rax
FIELD foretell_function, 8
  mov %rax, -8(%rsp)
  movabs $0, %rax
FIELD foretell_second, 8
  .byte 0x48, 0x89, 0x84, 0x24  // mov %rax, first(%rsp)
  .long 0
FIELD foretell_first, 4
  mov FRAME(RTRACE_FRAME_RAX), %rax
  mov (%rbp), %rbp
PART foretell_jump
  jmp *0f(%rip)
0:
  .quad 0
FIELD foretell_call, 8
PART jump
  .byte 0xe9
  .long 0
FIELD jump_distance, 4

PART end

  .section .note.GNU-stack, "", @progbits
