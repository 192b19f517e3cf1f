// A thread's own time. Pure.
#pragma once

#include <algorithm>
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

  // How long it has run since it was resumed, ours included.
  uint64_t ran(uint64_t now) const { return running_ && now > since_ ? now - since_ : 0; }
  bool held() const { return !running_; }
  // As of the last stop.
  uint64_t time() const { return time_; }
  // When it was seen, by the tracer's clock.
  uint64_t stopped_at() const { return since_; }

 private:
  uint64_t time_ = 0;
  uint64_t since_;  // of the last change
  bool running_ = true;
};

// What to subtract for a stop: what was measured beforehand, or less, where a thread has just been seen to
// meet its next stop in less. (A tracer and a thread that share a processor meet sooner than two that do not,
// and both move.) It is forgotten after one to two windows of stops that all took longer.
class StopShare {
 public:
  static constexpr unsigned kWindow = 256;

  explicit StopShare(uint64_t measured = 0) : measured_(measured) {}

  // A thread met a breakpoint so long after it had been resumed.
  void seen(uint64_t ran) {
    if (++stops_ == kWindow) {
      before_ = least_;
      least_ = ~uint64_t{0};
      stops_ = 0;
    }
    least_ = std::min(least_, ran);
  }
  uint64_t low() const { return std::min({measured_, least_, before_}); }

 private:
  uint64_t measured_;
  uint64_t least_ = ~uint64_t{0}, before_ = ~uint64_t{0};
  unsigned stops_ = 0;
};

}  // namespace rtrace::event
