// What the recorder asks of processor and kernel directly. Freestanding.
#pragma once

#include <asm/unistd.h>

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

// For where no tracer may be there to ask, of eight bytes. Address 0 would mean that there is no mask, and
// holds nothing. rt_sigprocmask() copies the new mask before it looks at `how`: EFAULT where it cannot be
// read, EINVAL where it can, and nothing else happens (kernel/signal.c).
inline bool kernel_can_read(uint64_t address) {
  constexpr long kEfault = -14;
  constexpr uint64_t kNoSuchHow = 0x7fffffff;
  return address != 0 &&
         system_call(__NR_rt_sigprocmask, kNoSuchHow, address, 0, sizeof(uint64_t)) != kEfault;
}

inline uint64_t time_stamp_counter() {
  uint32_t low = 0, high = 0;
  asm volatile("rdtsc" : "=a"(low), "=d"(high));
  return uint64_t{high} << 32 | low;
}

// In a child that a handler has forked all of Control is 0 from one instruction to the next, and no tracer
// leads back who is in the midst where it has died. So an address is read once, and looked at.
inline uint64_t once(const uint64_t& field) {
  return *static_cast<const volatile uint64_t*>(&field);
}

inline bool is_empty(const Control& control) {
  return once(control.slots) == 0;
}

// For what needs much of it. What is read once stays; false where it was empty already.
using ControlRoom = unsigned char[sizeof(Control)];
inline bool copy_whole(const Control& control, ControlRoom& copy) {
  static_assert(sizeof(Control) % sizeof(uint64_t) == 0);
  const void* from = &control;
  void* to = &copy;
  uint64_t words = sizeof(Control) / sizeof(uint64_t);
  asm volatile("rep movsq" : "+S"(from), "+D"(to), "+c"(words) : : "memory");
  return !is_empty(control);
}

// The psABI's thread control block begins with its own address (ELF TLS, variant II). Wrappers are only put
// where every thread has one.
inline uint64_t thread_pointer() {
  uint64_t value = 0;
  asm volatile("mov %%fs:0, %0" : "=r"(value));
  return value;
}

}  // namespace rtrace::agent
