// Whether memory of the program can be read: a bad pointer must not fault in the recorder.
#pragma once

#include <cstdint>

#include "rtrace/agent/recorder.h"

namespace rtrace::agent {

inline constexpr uint64_t kPage = 4096;

// Whose memory is read, and from where.
struct Reader {
  const Control& control;
  Slot& slot;
  uint64_t sp;     // of the function's caller
  uint64_t ticks;  // about now
};

// How much of [address, address + size) can be read, from the front.
//
// Without asking: the page of the stack pointer, and what lies above it in the thread's own stack. Else the
// kernel is asked page by page, with a system call that reads eight bytes and does nothing (measured: 0.43
// us), and its answer is kept for a millisecond at most, until SharedHeader::mappings counts up. What is left
// is a page that another thread takes away within the same few nanoseconds, unseen by the stubs at munmap and
// its like.
uint64_t readable_bytes(const Reader& reader, uint64_t address, uint64_t size);
// The same without anything to remember it by.
uint64_t readable_bytes(uint64_t sp, uint64_t address, uint64_t size);

// The length of the string there with its NUL, or of what can be read of it, `bound` at most.
uint64_t string_bytes(const Reader& reader, uint64_t address, uint64_t bound);

}  // namespace rtrace::agent
