// Asking for the next stop again and again for a moment, instead of sleeping until it comes.
//
// A tracer that sleeps has to be woken across processors, and so has its tracee at each resumption: measured
// on a virtual machine of two, 90 us a stop, and 30 us where the tracer stays awake. (On one processor it is
// 15 us, but the scheduler moves a woken thread away from the processor that wakes it while another is idle.)
// It costs processor time, so it is done only while it works: where tracer and tracee share a processor,
// asking keeps the tracee from running.
#pragma once

#include <cstdint>

#include "rtrace/tracee/thread.h"

namespace rtrace::tracee {

// When to. Pure.
class SpinChoice {
 public:
  static constexpr unsigned kFirstPause = 64, kLongestPause = 16384;  // stops

  // Before each wait: whether to ask again and again.
  bool next();
  // What it came to: a stop was there in time, or not.
  void found();
  void gave_up();

 private:
  static constexpr int kSure = 16, kPenalty = 4;
  int hope_ = 0;
  unsigned pause_ = kFirstPause;
  unsigned left_ = 0;  // waits until it is tried again
};

class Spin {
 public:
  // Tracer and tracee share a processor, as far as is known, or do not.
  enum class Tracee { here, elsewhere };
  void set_tracee(Tracee where) { elsewhere_ = where == Tracee::elsewhere; }

  // As peek_any.
  PeekAnswer peek(Block block);
  // Whether the last answer came while it was asking, so that nobody had to be woken for it.
  bool found_awake() const { return found_awake_; }

 private:
  bool elsewhere_ = false, found_awake_ = false;
  SpinChoice choice_;
};

}  // namespace rtrace::tracee
