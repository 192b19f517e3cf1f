// Writing one record behind the ring's head. What lies between begin and end of each of the two may be begun
// anew at any time with rdi, rsi and rdx as they were (recorder.h says when), so nothing in it but the last
// store can be seen by anybody, and neither the stack nor a register of the caller's is used.
#include "rtrace/agent/layout.h"

  .text

// In: rax: head, rcx: the record's bytes, rdi: slot. Out: rax: the record's position, r10: where it lies,
// r11: the new head. A record never wraps: the rest of the ring is padding then. Uses r8, r9.
  .macro PLACE full
  mov RTRACE_SLOT_CAPACITY(%rdi), %r8
  test %r8, %r8
  jz \full                              // no ring
  lea -1(%r8), %r10
  and %rax, %r10
  lea (%r10,%rcx), %r9
  cmp %r8, %r9
  ja 8f
  lea (%rax,%rcx), %r11
  mov %r11, %r9
  sub RTRACE_SLOT_TAIL(%rdi), %r9
  cmp %r8, %r9
  ja \full
  add RTRACE_SLOT_RING(%rdi), %r10
  jmp 9f
8:
  sub %r10, %r8
  lea (%rax,%r8), %r11
  add %rcx, %r11
  mov %r11, %r9
  sub RTRACE_SLOT_TAIL(%rdi), %r9
  cmp RTRACE_SLOT_CAPACITY(%rdi), %r9
  ja \full
  add %r8, %rax
  add RTRACE_SLOT_RING(%rdi), %r10
  shl $(RTRACE_HEAD_WORDS_SHIFT - 3), %r8
  or $RTRACE_KIND_PADDING, %r8
  mov %r8, (%r10)
  mov RTRACE_SLOT_RING(%rdi), %r10
9:
  .endm

  .macro COPY from, words:vararg
  .irp word, \words
  mov 8*\word(\from), %r9
  mov %r9, 8*\word(%r10)
  .endr
  .endm

// uint64_t rtrace_append_words(Slot* rdi, const uint64_t* words rsi, uint64_t count rdx): call_of() the
// record; 0 where the ring is full. No record has fewer words than that of a return.
  .globl rtrace_append_words, rtrace_append_words_end
  .hidden rtrace_append_words, rtrace_append_words_end
  .type rtrace_append_words, @function
rtrace_append_words:
  .cfi_startproc
  mov RTRACE_SLOT_HEAD(%rdi), %rax
  lea (,%rdx,8), %rcx
  PLACE 7f
  COPY %rsi, 0, 1, 2, 3, 4, 5
  mov RTRACE_SLOT_LOST(%rdi), %rcx
  mov %rcx, RTRACE_RECORD_LOST(%r10)
  mov %rdx, %rcx
  sub $RTRACE_RETURN_WORDS, %rcx
  jz 3f
  cmp $(RTRACE_LEAST_ENTRY_WORDS - RTRACE_RETURN_WORDS), %rcx
  jb 2f
  COPY %rsi, 6, 7, 8, 9, 10, 11
  sub $(RTRACE_LEAST_ENTRY_WORDS - RTRACE_RETURN_WORDS), %rcx
  jz 3f
2:                                      // what is left, from the end
  mov %rdx, %r9
4:
  mov -8(%rsi,%r9,8), %r8
  mov %r8, -8(%r10,%r9,8)
  dec %r9
  dec %rcx
  jnz 4b
3:
  mov %r11, RTRACE_SLOT_HEAD(%rdi)
rtrace_append_words_end:
  or RTRACE_SLOT_NAME(%rdi), %rax
  ret
7:
  xor %eax, %eax
  ret
  .cfi_endproc
  .size rtrace_append_words, . - rtrace_append_words

// uint64_t rtrace_append_pieces(Slot* rdi, const Job* job rsi): the same for words and pieces behind them, and
// RTRACE_PIECE_GONE where one of those cannot be read any more.
  .globl rtrace_append_pieces, rtrace_append_pieces_end, rtrace_append_pieces_fault
  .hidden rtrace_append_pieces, rtrace_append_pieces_end, rtrace_append_pieces_fault
  .type rtrace_append_pieces, @function
rtrace_append_pieces:
  .cfi_startproc
  mov RTRACE_SLOT_HEAD(%rdi), %rax
  mov RTRACE_JOB_SIZE(%rsi), %rcx
  PLACE 7f
  mov RTRACE_JOB_WORDS(%rsi), %r8
  mov RTRACE_JOB_WORD_COUNT(%rsi), %rcx
  lea (%r10,%rcx,8), %rdx               // where the pieces go
  COPY %r8, 0, 1, 2, 3, 4, 5
  sub $RTRACE_RETURN_WORDS, %rcx
  jz 10f
1:                                      // what is left, from the end
  mov 8*RTRACE_RETURN_WORDS-8(%r8,%rcx,8), %r9
  mov %r9, 8*RTRACE_RETURN_WORDS-8(%r10,%rcx,8)
  dec %rcx
  jnz 1b
10:
  mov RTRACE_SLOT_LOST(%rdi), %rcx
  mov %rcx, RTRACE_RECORD_LOST(%r10)
  mov RTRACE_JOB_PIECES(%rsi), %r10
2:                                      // each {label, source, length}
  mov (%r10), %r8
  mov %r8, (%rdx)
  mov 16(%r10), %rcx
  mov %rcx, 8(%rdx)
  mov 8(%r10), %r8
  add $16, %rdx
  cmp $8, %rcx
  jb 4f
  // The last eight bytes first, then all others from the front; the two may overlap.
  mov -8(%r8,%rcx), %r9
  mov %r9, -8(%rdx,%rcx)
  lea 7(%rcx,%rdx), %rcx
  and $-8, %rcx                         // the next piece
3:
  mov (%r8), %r9
  mov %r9, (%rdx)
  add $8, %r8
  add $8, %rdx
  lea 8(%rdx), %r9
  cmp %rcx, %r9
  jb 3b
  mov %rcx, %rdx
  jmp 6f
4:
  test %rcx, %rcx
  jz 6f
5:
  movzbl -1(%r8,%rcx), %r9d
  mov %r9b, -1(%rdx,%rcx)
  dec %rcx
  jnz 5b
  add $8, %rdx
6:
  add $RTRACE_PIECE_SIZE, %r10
  cmp RTRACE_JOB_PIECES_END(%rsi), %r10
  jb 2b
  mov %r11, RTRACE_SLOT_HEAD(%rdi)
rtrace_append_pieces_end:
  or RTRACE_SLOT_NAME(%rdi), %rax
  ret
7:
  xor %eax, %eax
  ret
rtrace_append_pieces_fault:
  mov $RTRACE_PIECE_GONE, %eax
  ret
  .cfi_endproc
  .size rtrace_append_pieces, . - rtrace_append_pieces

// Looks at memory that may not be there: the fault is taken by somebody who lives, and ends the look.
  .macro LOOK name, owner:req
  .globl \name, \name\()_end, \name\()_fault
  .hidden \name, \name\()_end, \name\()_fault
  .type \name, @function
\name:
  .cfi_startproc
  testl $RTRACE_OWNER_DIED, (\owner)
  jnz \name\()_fault
  cmpl $0, (\owner)
  je \name\()_fault
  .endm
  .macro LOOK_ENDS name
\name\()_fault:
  xor %eax, %eax
  ret
  .cfi_endproc
  .size \name, . - \name
  .endm

// uint32_t rtrace_can_read(const void* address rdi, const uint32_t* owner rsi): 1 where a byte can be read there.
LOOK rtrace_can_read, %rsi
  movzbl (%rdi), %eax
rtrace_can_read_end:
  mov $1, %eax
  ret
LOOK_ENDS rtrace_can_read

// uint32_t rtrace_load_word(const void* address rdi, const uint32_t* owner rsi, uint64_t* word rdx): 1 where
// there is one.
LOOK rtrace_load_word, %rsi
  mov (%rdi), %rax
rtrace_load_word_end:
  mov %rax, (%rdx)
  mov $1, %eax
  ret
LOOK_ENDS rtrace_load_word

// uint64_t rtrace_length_in_page(uint64_t begin rdi, uint64_t end rsi, const uint32_t* owner rdx): up to and with
// the first NUL in [begin, end), which lies in one page; one more than all of it where there is none; 0 where it
// is not there. Words are read whole, and aligned: they stay in the page.
LOOK rtrace_length_in_page, %rdx
  movabs $0x0101010101010101, %r9
  movabs $0x8080808080808080, %r10
  mov %rdi, %r8
  and $-8, %r8
  mov %edi, %ecx
  and $7, %ecx
  shl $3, %ecx
  mov $1, %eax
  shl %cl, %rax
  dec %rax                              // the bytes in front of it are no NULs
  or (%r8), %rax
1:
  mov %rax, %r11
  sub %r9, %rax
  not %r11
  and %r11, %rax
  and %r10, %rax
  jnz 2f
  add $8, %r8
  cmp %rsi, %r8
  jae 3f
  mov (%r8), %rax
  jmp 1b
2:
  bsf %rax, %rax
  shr $3, %eax
  lea 1(%r8,%rax), %rax
  cmp %rsi, %rax
  jbe 4f
3:
  lea 1(%rsi), %rax
4:
  sub %rdi, %rax
rtrace_length_in_page_end:
  ret
LOOK_ENDS rtrace_length_in_page

// uint64_t rtrace_ask(uint64_t page rdi): the tracer's breakpoint stands at rtrace_question.
  .globl rtrace_ask, rtrace_question
  .hidden rtrace_ask, rtrace_question
  .type rtrace_ask, @function
rtrace_ask:
  .cfi_startproc
  xor %eax, %eax
rtrace_question:
  nop
  ret
  .cfi_endproc
  .size rtrace_ask, . - rtrace_ask

  .section .note.GNU-stack, "", @progbits
