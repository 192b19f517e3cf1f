// What the recorder asks of processor and kernel directly. Freestanding.
#pragma once

#include <cstdint>

#include "rtrace/agent/recorder.h"

namespace rtrace::agent {

inline long system_call(long number, uint64_t first = 0, uint64_t second = 0, uint64_t third = 0,
                        uint64_t fourth = 0) {
  long answer = 0;
  register uint64_t r10 asm("r10") = fourth;
  asm volatile("syscall"
               : "=a"(answer)
               : "a"(number), "D"(first), "S"(second), "d"(third), "r"(r10)
               : "rcx", "r11", "memory");
  return answer;
}

inline uint64_t time_stamp_counter() {
  uint32_t low = 0, high = 0;
  asm volatile("rdtsc" : "=a"(low), "=d"(high));
  return uint64_t{high} << 32 | low;
}

// By the processor's counter where that serves, else in nanoseconds.
__attribute__((always_inline)) inline uint64_t now(const Control& control) {
  if (control.clock == 0) return time_stamp_counter();
  constexpr int kMonotonic = 1;  // CLOCK_MONOTONIC
  uint64_t time[2] = {};
  reinterpret_cast<int (*)(int, uint64_t*)>(control.clock)(kMonotonic, time);
  return time[0] * 1'000'000'000 + time[1];
}

// The psABI's thread control block begins with its own address (ELF TLS, variant II). Wrappers are only put
// where every thread has one.
inline uint64_t thread_pointer() {
  uint64_t value = 0;
  asm volatile("mov %%fs:0, %0" : "=r"(value));
  return value;
}

}  // namespace rtrace::agent
