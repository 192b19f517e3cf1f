// A thread's own time. Pure.
#pragma once

#include <cstdint>

namespace rtrace::event {

// Runs while the thread does, and stands still while the tracer holds it. All stamps are monotonic
// nanoseconds.
//
// Between the thread's trap and our stamp lie the stop's delivery and our wake-up, between our other stamp
// and the thread's next instruction its own wake-up: `share` is what these take together, as far as it is
// known. What was measured between two stops is never made nothing of: a thread that ran has run a nanosecond
// at least.
class ThreadClock {
 public:
  explicit ThreadClock(uint64_t now = 0) : since_(now) {}

  // A stop was seen. Of several in one halt the first counts.
  void stopped(uint64_t now, uint64_t share) {
    if (!running_) return;
    running_ = false;
    const uint64_t passed = now > since_ ? now - since_ : 0;
    time_ += passed > share ? passed - share : 1;
    since_ = now;
  }
  // The thread is about to be resumed.
  void resumed(uint64_t now) {
    if (!running_) since_ = now;
    running_ = true;
  }

  // As of the last stop.
  uint64_t time() const { return time_; }
  // When it was seen, by the tracer's clock.
  uint64_t stopped_at() const { return since_; }

 private:
  uint64_t time_ = 0;
  uint64_t since_;  // of the last change
  bool running_ = true;
};

}  // namespace rtrace::event
