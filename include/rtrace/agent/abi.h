// Plain data that the tracer and code inside the tracee agree on. Nothing here may use a library.
#pragma once

#include <cstdint>

namespace rtrace::agent {

// What to copy of the tracee's memory at a call's entry or return, so that the arguments can be rendered
// after the thread runs on. Made by decode from a prototype; carried out by a breakpoint's stop (one gathered
// read) or by a trampoline.
struct Capture {
  enum class Source : uint8_t { integer_register, stack_slot, result };
  enum class Length : uint8_t {
    fixed,     // `bound` bytes
    string,    // up to a NUL, at most `bound` bytes
    argument,  // the value of integer argument `length_index` times `scale`, at most `bound` bytes
    result,    // the return value times `scale`, at most `bound` bytes
  };
  Source source = Source::integer_register;
  Length length = Length::fixed;
  uint8_t index = 0;         // of the register (0-5), or of the 8-byte stack slot above the return address
  uint8_t length_index = 0;  // 0-based integer argument
  uint16_t scale = 1;
  uint32_t bound = 0;
};

inline constexpr unsigned kMaxCaptures = 12;

struct CapturePlan {
  uint8_t count = 0;
  uint8_t deep =
      0;  // 1: rendering may need memory that no plan can name ahead; decode while the thread is stopped
  uint16_t stack_bytes = 0;  // of memory-passed arguments, from behind the return address
  Capture captures[kMaxCaptures];
};

}  // namespace rtrace::agent
