// A thread's own time. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

namespace rtrace::event {

// Runs while the thread does, and stands still while the tracer holds it. All stamps are monotonic
// nanoseconds.
class ThreadClock {
 public:
  explicit ThreadClock(uint64_t now = 0) : since_(now) {}

  // A stop was seen. Of several in one halt the first counts: it gives how long the thread has run by the
  // tracer's clock, of which ran() is still to be told how much was its own.
  std::optional<uint64_t> stopped(uint64_t now) {
    if (!running_) return std::nullopt;
    running_ = false;
    resumed_ = since_;
    before_ = time_;
    const uint64_t passed = now > since_ ? now - since_ : 0;
    since_ = now;
    return passed;
  }
  // What was measured between two stops is never made nothing of: a thread that ran has run a nanosecond at
  // least. Nor does it go back behind what time_at() has answered.
  void ran(uint64_t own) {
    time_ = std::max({time_ + std::max<uint64_t>(own, 1), told_of_entry_, told_of_return_});
  }
  // A stop of which nothing more will be known: all that has passed is the thread's.
  void halted(uint64_t now) {
    if (const auto passed = stopped(now)) ran(*passed);
  }
  // The thread is about to be resumed.
  void resumed(uint64_t now) {
    if (!running_) since_ = now;
    running_ = true;
  }

  bool held() const { return !running_; }
  // As of the last stop.
  uint64_t time() const { return time_; }
  // Of a call's entry or return then, while it runs, or between the last resumption and the stop since, once
  // ran() has told of that; `not_own` of what had passed since it was resumed was not the thread's. Never
  // less than at that resumption, nor more than at that stop, nor earlier than the one before.
  enum class Of : uint8_t { entry, returned };
  uint64_t time_at(uint64_t then, uint64_t not_own, Of what = Of::returned) {
    const uint64_t from = running_ ? since_ : resumed_;
    const uint64_t passed = then > from ? then - from : 0;
    const uint64_t time = (running_ ? time_ : before_) + passed - std::min(passed, not_own);
    uint64_t& told = what == Of::entry ? told_of_entry_ : told_of_return_;
    return told = std::max(told, running_ ? time : std::min(time, time_));
  }
  // When it was seen, by the tracer's clock.
  uint64_t stopped_at() const { return since_; }

 private:
  uint64_t time_ = 0;
  uint64_t since_;                     // of the last change
  uint64_t resumed_ = 0, before_ = 0;  // when it was resumed last before it stopped, and its time then
  uint64_t told_of_entry_ = 0, told_of_return_ = 0;
  bool running_ = true;
};

// What of the time between a resumption and the next stop is the tracer's: the thread's wake-up, the delivery
// of the stop, and our own wake-up.
//
// Where tracer and thread share a processor, these are much the same each time, and what was measured
// beforehand is subtracted: the low end of it, so that never more is taken than there was. Across processors
// the wake-ups take five times as long, and vary as much; there the scheduler's account of the thread tells
// them apart. It counts as the thread's own what the thread does to be stopped and to wake the tracer, which
// across processors is more, too.
class StopCosts {
 public:
  // Where the tracer was when the thread stopped; on its processor, too, where that is not known.
  enum class Tracer { on_its_processor, elsewhere_awake, elsewhere_asleep };
  // ns from a resumption to the next stop of a thread that does nothing else, low ends.
  struct Stop {
    uint64_t passed = 0;
    uint64_t ran = 0;  // what of it the thread was on a processor
  };
  struct Measured {
    Stop together{};
    Stop awake{}, asleep{};  // the tracer, elsewhere; nothing where that cannot be
  };
  // Since it was resumed the thread has been on a processor so long, and was put on one so many times.
  struct Account {
    uint64_t ran = 0;
    uint64_t slices = 0;
  };
  static constexpr unsigned kWindow = 256;

  StopCosts() = default;
  explicit StopCosts(const Measured& measured) : measured_(measured) {}

  // A thread met a breakpoint so long after it had been resumed: a shorter time than was measured counts from
  // now on, and is forgotten after one to two windows of stops that all took longer.
  void seen(uint64_t passed);

  // Whether an account would tell more.
  bool doubtful(uint64_t passed) const { return passed > low() + kUsualSpread; }

  // The thread's own part of what has passed.
  uint64_t own(uint64_t passed, std::optional<Account> account, Tracer tracer = Tracer::on_its_processor);

  uint64_t low() const { return std::min({measured_.together.passed, least_, before_}); }
  // Of that the thread's wake-up, and the delivery of the stop: one half each, for want of better.
  uint64_t wake_up() const { return low() / 2; }
  uint64_t delivery() const { return low() - wake_up(); }

 private:
  static constexpr uint64_t kUsualSpread = 3'000;

  static constexpr unsigned kFew = 8;  // wake-ups of which the least may be the low end

  uint64_t ran_to_stop(Tracer tracer) const;
  void woke(uint64_t took);

  Measured measured_;
  uint64_t least_ = ~uint64_t{0}, before_ = ~uint64_t{0};
  unsigned stops_ = 0;
  uint64_t wake_up_ = 0;  // the low end of late, once there have been a few
  unsigned wakes_ = 0;    // at most kFew
};

}  // namespace rtrace::event
