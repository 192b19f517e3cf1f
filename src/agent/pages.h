// Whether memory of the program can be read: a bad pointer must not fault in the recorder.
#pragma once

#include <cstdint>

#include "rtrace/agent/recorder.h"

// What is read in such a function is the program's, whatever a sanitizer knows of it.
#define RTRACE_ANY_MEMORY __attribute__((no_sanitize("address", "undefined")))

namespace rtrace::agent {

inline constexpr uint64_t kPage = 4096;

// Whose memory is read, and from where.
struct Reader {
  const Control& control;
  uint64_t sp;  // of the function's caller
};

// How much of [address, address + size) can be read, from the front: page by page, the first time by asking
// the tracer, then by a load whose fault it takes, as it does where what was found there is read at last.
// What is left is a page that went away unseen before the tracer is killed while its fault is on the way; and
// where a thread blocks or ignores SIGSEGV (SIGBUS) and meets such a page, the kernel sets the signal's
// action to the default.
uint64_t readable_bytes(const Reader& reader, uint64_t address, uint64_t size);
// The same, where there may be no tracer: the kernel is asked of all pages but the stack pointer's.
uint64_t readable_bytes(uint64_t sp, uint64_t address, uint64_t size);

// The length of the string there with its NUL, or of what can be read of it, `bound` at most.
uint64_t string_bytes(const Reader& reader, uint64_t address, uint64_t bound);

// The word there; false where it is not there any more.
bool load_word(const Reader& reader, uint64_t address, uint64_t& word);

}  // namespace rtrace::agent

// append.S; what faults between the name and its `end` goes on at its `fault`.
extern "C" {
uint32_t rtrace_can_read(const void* address, const uint32_t* owner);
uint32_t rtrace_load_word(const void* address, const uint32_t* owner, uint64_t* word);
uint64_t rtrace_length_in_page(uint64_t begin, uint64_t end, const uint32_t* owner);
extern const unsigned char rtrace_can_read_end[], rtrace_can_read_fault[];
extern const unsigned char rtrace_load_word_end[], rtrace_load_word_fault[];
extern const unsigned char rtrace_length_in_page_end[], rtrace_length_in_page_fault[];
}
