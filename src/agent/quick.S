// What nearly all calls of wrapped functions go through, in the fewest instructions: the thread has its slot, and
// a record is the frame's words alone and has room. Whatever else there is the C++ of recorder.cc does, which
// this calls. The plan's address is the stub's own, so that nothing has to be looked up: where Control has become
// empty, the plans stay.
//
// Besides rax, rcx, rdx, r10 and r11, which the stub has saved, no register changes. Up to what can be seen by
// anybody, the store of the ring's head or the first count, each of the two may be begun anew at any time
// (recorder.h says when): r11 is as it was until then. So a child that a handler has forked looks at the mode
// again, which is off in it, and Control empty. One that no tracer has led back, for it is dead, finds Control
// empty in the middle: it looks whether an address that it has from there is one.
//
// What is soon written, some twenty records ahead, is asked for early: another core may have read it last, and
// after a rest the page itself is not at hand. Processors that do not know prefetchw do nothing (Intel SDM).
#include "rtrace/agent/layout.h"

#define FRAME(field) (field - RTRACE_FRAME_SIZE)(%rbp)
#define KEPT(word) FRAME(RTRACE_FRAME_KEPT + 8 * word)

// What lies in mappings of ours lies above, what is counted from an address of 0 below. A mapping that the kernel
// has put lower costs its calls a little more time.
#define LOW 0x7fffffff

  .text

  .macro CONTROL to
  mov rtrace_blob+RTRACE_BLOB_CONTROL(%rip), \to
  .endm

// void rtrace_quick_enter(FunctionPlan* r11)
  .globl rtrace_quick_enter, rtrace_quick_enter_end, rtrace_quick_count, rtrace_quick_count_end
  .hidden rtrace_quick_enter, rtrace_quick_enter_end, rtrace_quick_count, rtrace_quick_count_end
  .type rtrace_quick_enter, @function
rtrace_quick_enter:
  .cfi_startproc
  CONTROL %rax
  movzbl (%rax), %r10d
  test %r10d, %r10d
  jz 8f
  mov %fs:0, %rdx
  movabs $0x9e3779b97f4a7c15, %rcx
  imul %rdx, %rcx
  shr $(64 - RTRACE_MOST_SLOT_BITS - RTRACE_SLOT_BITS), %rcx
  and RTRACE_CONTROL_SLOT_MASK(%rax), %rcx
  add RTRACE_CONTROL_SLOTS(%rax), %rcx
  cmp $LOW, %rcx                        // emptied by now
  jbe 8f
  cmp %rdx, (%rcx)
  jne 8f
  mov %rcx, KEPT(2)
  cmp $RTRACE_MODE_COUNT, %r10d
  je 5f

  mov RTRACE_SLOT_HEAD(%rcx), %r10
  lea 8*RTRACE_ENTRY_WORDS(%r10), %rax
  cmp RTRACE_SLOT_ROOM_END(%rcx), %rax
  ja 8f
  mov RTRACE_SLOT_NAME(%rcx), %rax
  or %r10, %rax
  mov %rax, KEPT(0)
  mov RTRACE_SLOT_CAPACITY(%rcx), %rax
  dec %rax
  and %rax, %r10
  add RTRACE_SLOT_RING(%rcx), %r10
  prefetchw 3008(%r10)
  prefetchw 3072(%r10)
  prefetchw 3136(%r10)
  mov RTRACE_PLAN_ENTRY_HEAD(%r11), %rax
  mov %rax, (%r10)
  mov RTRACE_SLOT_LOST(%rcx), %rax
  mov %rax, 16(%r10)
  mov RTRACE_SLOT_HELD(%rcx), %rax
  mov %rax, 24(%r10)
  lea 8(%rbp), %rax
  mov %rax, 32(%r10)
  mov 8(%rbp), %rax
  mov %rax, 40(%r10)
  mov %rbx, 48(%r10)
  mov (%rbp), %rax
  mov %rax, 56(%r10)
  mov %r12, 64(%r10)
  mov %r13, 72(%r10)
  mov %r14, 80(%r10)
  mov %r15, 88(%r10)
  mov %rdi, 96(%r10)                    // from here on what may lie behind the record's end
  mov %rsi, 104(%r10)
  mov FRAME(RTRACE_FRAME_ARGUMENTS + 16), %rax
  mov %rax, 112(%r10)
  mov FRAME(RTRACE_FRAME_ARGUMENTS + 24), %rax
  mov %rax, 120(%r10)
  mov %r8, 128(%r10)
  mov %r9, 136(%r10)
  mov FRAME(RTRACE_FRAME_RAX), %rax
  mov %rax, 144(%r10)
  rdtsc                                 // last: what follows is the call's own time
  shl $32, %rdx
  or %rdx, %rax
  mov %rax, 8(%r10)
  movzwl RTRACE_PLAN_ENTRY_WORDS(%r11), %eax
  shl $3, %eax
  add %rax, RTRACE_SLOT_HEAD(%rcx)
rtrace_quick_enter_end:
  CONTROL %rax
  cmpq $0, RTRACE_CONTROL_SLOTS(%rax)
  je 7f                                 // a child's call is none of its parent's
  incq RTRACE_SLOT_OPEN(%rcx)
  mov RTRACE_CONTROL_INSIDE(%rax), %eax
  add %rax, RTRACE_SLOT_HELD(%rcx)
7:
  ret

5:                                      // counts; rax: control, rcx: slot
rtrace_quick_count:
  mov RTRACE_SLOT_INDEX_ROW(%rcx), %r10
  mov RTRACE_PLAN_FUNCTION(%r11), %edx
  mov (%r10,%rdx,4), %edx               // its summary, plus 1
  cmp RTRACE_CONTROL_FUNCTIONS(%rax), %edx
  jbe 8f
  cmp RTRACE_CONTROL_SUMMARIES_COUNT(%rax), %edx
  ja 8f
  dec %edx
  shl $RTRACE_SUMMARY_BITS, %rdx
  add RTRACE_CONTROL_SUMMARIES(%rax), %rdx
  cmp $LOW, %rdx
  jbe 8f
  mov %rdx, KEPT(3)
  incq RTRACE_SUMMARY_ENTERED(%rdx)
rtrace_quick_count_end:
  lea 8(%rbp), %rax
  cmp %rax, RTRACE_SUMMARY_OUTER_FRAME(%rdx)
  ja 6f
  mov %rax, RTRACE_SUMMARY_OUTER_FRAME(%rdx)
6:
  mov RTRACE_SLOT_OWN(%rcx), %rax
  mov %rax, KEPT(1)
  rdtsc
  shl $32, %rdx
  or %rdx, %rax
  sub RTRACE_SLOT_HELD(%rcx), %rax
  mov %rax, KEPT(0)
  ret

8:
  sub $8, %rsp
  .cfi_adjust_cfa_offset 8
  mov %rdi, FRAME(RTRACE_FRAME_ARGUMENTS)
  mov %rsi, FRAME(RTRACE_FRAME_ARGUMENTS + 8)
  mov %r8, FRAME(RTRACE_FRAME_ARGUMENTS + 32)
  mov %r9, FRAME(RTRACE_FRAME_ARGUMENTS + 40)
  mov (%rbp), %rax
  mov %rbx, FRAME(RTRACE_FRAME_SAVED)
  mov %rax, FRAME(RTRACE_FRAME_SAVED + 8)
  mov %r12, FRAME(RTRACE_FRAME_SAVED + 16)
  mov %r13, FRAME(RTRACE_FRAME_SAVED + 24)
  mov %r14, FRAME(RTRACE_FRAME_SAVED + 32)
  mov %r15, FRAME(RTRACE_FRAME_SAVED + 40)
  lea -RTRACE_FRAME_SIZE(%rbp), %rdi
  mov RTRACE_PLAN_FUNCTION(%r11), %esi
  xor %edx, %edx
  call rtrace_enter
  mov FRAME(RTRACE_FRAME_ARGUMENTS), %rdi
  mov FRAME(RTRACE_FRAME_ARGUMENTS + 8), %rsi
  mov FRAME(RTRACE_FRAME_ARGUMENTS + 32), %r8
  mov FRAME(RTRACE_FRAME_ARGUMENTS + 40), %r9
  add $8, %rsp
  .cfi_adjust_cfa_offset -8
  ret
  .cfi_endproc
  .size rtrace_quick_enter, . - rtrace_quick_enter

// void rtrace_quick_leave(FunctionPlan* r11)
  .globl rtrace_quick_leave, rtrace_quick_leave_end, rtrace_quick_counted, rtrace_quick_counted_end
  .hidden rtrace_quick_leave, rtrace_quick_leave_end, rtrace_quick_counted, rtrace_quick_counted_end
  .type rtrace_quick_leave, @function
rtrace_quick_leave:
  .cfi_startproc
  CONTROL %rax
  movzbl (%rax), %ecx                   // once: a child may find it off the next time
  test %ecx, %ecx
  jz 8f                                 // nobody may be there to answer for a clock
  rdtsc                                 // what follows is not the call's time
  shl $32, %rdx
  lea (%rax,%rdx), %r10
  CONTROL %rax
  cmpq $RTRACE_UNRECORDED, KEPT(0)
  jb 9f
  je 8f
  cmpb $0, RTRACE_PLAN_FAILURE(%r11)
  je 1f
  // Whatever may show a failure.
  mov FRAME(RTRACE_FRAME_RESULT), %rdx
  cmp $-1, %edx
  je 8f
  test %rdx, %rdx
  jnz 1f
  cmpb $RTRACE_FAILURE_NULL, RTRACE_PLAN_FAILURE(%r11)
  je 8f
1:
  cmp $RTRACE_MODE_COUNT, %ecx
  mov KEPT(2), %rcx
  je 5f

  mov %fs:0, %rdx                       // it may return on another thread than it began on
  cmp %rdx, (%rcx)
  jne 8f
  mov RTRACE_SLOT_HEAD(%rcx), %rdx
  lea 8*RTRACE_RETURN_WORDS(%rdx), %rax
  cmp RTRACE_SLOT_ROOM_END(%rcx), %rax
  ja 8f
  mov RTRACE_SLOT_CAPACITY(%rcx), %rax
  dec %rax
  and %rax, %rdx
  add RTRACE_SLOT_RING(%rcx), %rdx
  mov RTRACE_PLAN_RETURN_HEAD(%r11), %rax
  mov %rax, (%rdx)
  mov %r10, 8(%rdx)
  mov RTRACE_SLOT_LOST(%rcx), %rax
  mov %rax, 16(%rdx)
  mov RTRACE_SLOT_HELD(%rcx), %rax
  mov %rax, 24(%rdx)
  mov KEPT(0), %rax
  mov %rax, 32(%rdx)
  mov FRAME(RTRACE_FRAME_RESULT), %rax
  mov %rax, 40(%rdx)
  addq $(8 * RTRACE_RETURN_WORDS), RTRACE_SLOT_HEAD(%rcx)
rtrace_quick_leave_end:
  CONTROL %rax
  cmpq $0, RTRACE_CONTROL_SLOTS(%rax)
  je 7f
  decq RTRACE_SLOT_OPEN(%rcx)
  mov RTRACE_CONTROL_OUTSIDE(%rax), %eax
  add %rax, RTRACE_SLOT_HELD(%rcx)
7:
  ret

5:                                      // counts; r10: ticks, rax: control, rcx: slot
rtrace_quick_counted:
  mov %fs:0, %rdx
  cmp %rdx, (%rcx)
  jne 8f
  mov KEPT(3), %rdx
  test %rdx, %rdx
  je 8f
  cmpq $0, RTRACE_SUMMARY_ENTERED(%rdx)
  je 8f                                 // its parent's, which a followed child may not have
  mov RTRACE_SUMMARY_FUNCTION(%rdx), %edx
  cmp %edx, RTRACE_PLAN_FUNCTION(%r11)
  jne 8f                                // or have for another function
  mov KEPT(3), %r11
rtrace_quick_counted_end:
  sub RTRACE_SLOT_HELD(%rcx), %r10
  sub KEPT(0), %r10
  mov RTRACE_CONTROL_INSIDE(%rax), %edx
  sub %rdx, %r10
  jns 1f
  xor %r10d, %r10d                      // r10: what it took, all in all
1:
  mov RTRACE_SLOT_OWN(%rcx), %rdx
  sub KEPT(1), %rdx
  jle 3f
  cmp %r10, %rdx
  jbe 2f
  mov %rdx, %r10                        // what it calls is in it, whatever the shares have made of the rest
2:
  add %rdx, RTRACE_SUMMARY_INNER(%r11)
3:
  mov KEPT(1), %rdx
  add %r10, %rdx
  mov %rdx, RTRACE_SLOT_OWN(%rcx)
  mov RTRACE_CONTROL_INSIDE(%rax), %edx
  add %rdx, RTRACE_SLOT_HELD(%rcx)
  mov RTRACE_CONTROL_OUTSIDE(%rax), %edx
  add %rdx, RTRACE_SLOT_HELD(%rcx)
  add %r10, RTRACE_SUMMARY_TOTAL(%r11)
  cmp %r10, RTRACE_SUMMARY_GREATEST(%r11)
  jb 6f
4:
  lea 8(%rbp), %rdx
  cmp %rdx, RTRACE_SUMMARY_OUTER_FRAME(%r11)
  ja 5f
  movq $0, RTRACE_SUMMARY_OUTER_FRAME(%r11)
  jmp 2f
5:
  add %r10, RTRACE_SUMMARY_RECURSIVE(%r11)
2:
  mov RTRACE_CONTROL_NANOSECONDS(%rax), %rax
  mul %r10
  shrd $32, %rdx, %rax
  cmp $1, %rax
  adc $0, %rax                          // no less than 1
  cmp $32, %rax                         // buckets.h
  jb 3f
  bsr %rax, %rcx
  sub $5, %ecx
  shr %cl, %rax
  shl $5, %ecx
  add %rcx, %rax
3:
  incq RTRACE_SUMMARY_DURATIONS(%r11,%rax,8)
  ret

6:                                      // a handler that interrupts this may raise it too
  mov %rax, FRAME(RTRACE_FRAME_SAVED + 8)
  mov RTRACE_SUMMARY_GREATEST(%r11), %rax
1:
  cmp %r10, %rax
  jae 2f
  cmpxchg %r10, RTRACE_SUMMARY_GREATEST(%r11)
  jne 1b
2:
  mov FRAME(RTRACE_FRAME_SAVED + 8), %rax
  jmp 4b

8:
  sub $8, %rsp
  .cfi_adjust_cfa_offset 8
  mov %rsi, FRAME(RTRACE_FRAME_SAVED + 8)
  mov %rdi, FRAME(RTRACE_FRAME_SAVED + 16)
  mov %r8, FRAME(RTRACE_FRAME_SAVED + 24)
  mov %r9, FRAME(RTRACE_FRAME_SAVED + 32)
  lea -RTRACE_FRAME_SIZE(%rbp), %rdi
  mov RTRACE_PLAN_FUNCTION(%r11), %esi
  call rtrace_leave
  mov FRAME(RTRACE_FRAME_SAVED + 8), %rsi
  mov FRAME(RTRACE_FRAME_SAVED + 16), %rdi
  mov FRAME(RTRACE_FRAME_SAVED + 24), %r8
  mov FRAME(RTRACE_FRAME_SAVED + 32), %r9
  add $8, %rsp
  .cfi_adjust_cfa_offset -8
9:
  ret
  .cfi_endproc
  .size rtrace_quick_leave, . - rtrace_quick_leave

  .section .note.GNU-stack, "", @progbits
