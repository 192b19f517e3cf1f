// Where the engine is, in memory that outlives it: whoever finds it dead can say what it was doing, and tests
// can have it die at any of these moments.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

namespace rtrace {

enum class Moment : uint32_t {
  starting,
  waiting,            // for an event
  stop_peeked,        // a thread stands at a stop that is still the kernel's to deliver
  registers_due,      // what it is to go on with is known, and not written
  registers_written,  // it has its new registers, and has not been resumed
  held_back,          // a thread's signals are, for a step
  stepping,           // a thread with its signals held back runs one instruction
  remote_call,        // a thread makes a system call for us
  call_begun,         // it is about to, by itself
  call_under_way,     // it has been resumed for that, and its next stop is nobody's yet
  mapped,             // by such a call, and its header does not stand yet
  byte_write,         // a patch has been published and is being written
  put_back,           // a byte of the program's is about to stand again where an int3 does
  stop_all,
  detach,  // all stand; code, handler and mappings are put back
};
inline constexpr unsigned kMoments = 15;
std::string_view name_of(Moment moment);

namespace moment {

// Where the moment is kept from now on: shared memory, or nullptr for nowhere.
void keep_in(std::atomic<uint32_t>* cell);

// "MOMENT:N[:both]": at the N-th time that moment begins, the process kills itself with SIGKILL; with "both"
// its parent first. For tests. False where it says something else.
bool die_at(std::string_view when);

namespace internal {
extern std::atomic<uint32_t>* cell;
extern bool deadly;
void begin(Moment moment);
}  // namespace internal

inline Moment now() {
  return static_cast<Moment>(internal::cell->load(std::memory_order_relaxed));
}

inline void enter(Moment moment) {
  internal::cell->store(static_cast<uint32_t>(moment), std::memory_order_relaxed);
  if (internal::deadly) internal::begin(moment);
}

// A moment within another.
class Scope {
 public:
  explicit Scope(Moment moment) : before_(now()) { enter(moment); }
  ~Scope() { internal::cell->store(static_cast<uint32_t>(before_), std::memory_order_relaxed); }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  Moment before_;
};

}  // namespace moment
}  // namespace rtrace
