// The blob's head (struct Blob) and the few instructions that C++ cannot say. Linked at address 0, so that
// symbols are offsets.
  .section .head, "ax"
  .globl rtrace_blob
  .hidden rtrace_blob
  .type rtrace_blob, @object  // its words are no instructions
rtrace_blob:
  .ascii "rtrace mapping\001\000"
  .long 19, 1               // kAbiVersion, kBlobMapping
  .quad 0, 0                // size, session: by the tracer
  .quad rtrace_bridge, restorer, gadget
  .quad 0, 0, 0             // table, frame area
  .quad 0, 0                // masked thread
  .quad 0                   // control
  .quad rtrace_enter, rtrace_leave
  .quad rtrace_quick_enter, rtrace_quick_leave
  .quad rtrace_append_words, rtrace_append_words_end, rtrace_append_words
  .quad rtrace_append_pieces, rtrace_append_pieces_end, rtrace_append_pieces
  .quad rtrace_quick_enter, rtrace_quick_enter_end, rtrace_quick_enter
  .quad rtrace_quick_count, rtrace_quick_count_end, rtrace_quick_enter
  .quad rtrace_quick_leave, rtrace_quick_leave_end, rtrace_quick_leave
  .quad rtrace_quick_counted, rtrace_quick_counted_end, rtrace_quick_leave
  .quad rtrace_can_read, rtrace_can_read_end, rtrace_can_read_fault
  .quad rtrace_load_word, rtrace_load_word_end, rtrace_load_word_fault
  .quad rtrace_length_in_page, rtrace_length_in_page_end, rtrace_length_in_page_fault
  .quad rtrace_append_pieces, rtrace_append_pieces_end, rtrace_append_pieces_fault
  .quad rtrace_question
  .quad 0, 0                // announced
  .quad 0                   // open handlers
  .quad screen
own_handler:
  .quad 0, 0
  .size rtrace_blob, . - rtrace_blob

  .text
// Byte for byte what unwinders know a signal frame's return by (gcc: config/i386/linux-unwind.h).
restorer:
  mov $15, %rax             // __NR_rt_sigreturn
  syscall

// A signal handler, with its three arguments. What the program's own one finds is what the kernel has made,
// and it returns through the restorer that it was set with.
screen:
  push %rdi
  push %rsi
  push %rdx
  call rtrace_screen
  pop %rdx
  pop %rsi
  pop %rdi
  test %al, %al
  jnz 1f
  xor %eax, %eax
  jmp *own_handler(%rip)
1:
  ret

gadget:
  syscall
  mov $15, %eax
  syscall
  ud2

  .section .note.GNU-stack, "", @progbits
