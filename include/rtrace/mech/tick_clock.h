// What the time stamp counter said inside a tracee, as a time of the clocks that all else is stamped by.
#pragma once

#include <cstdint>

#include "rtrace/event/ids.h"
#include "rtrace/mech/recorder_share.h"

namespace rtrace::mech {

// The two run at rates that differ by millionths, and CLOCK_REALTIME is set now and then: they are compared
// anew every second.
class TickClock {
 public:
  // `nanoseconds_per_tick` as in RecorderShare.
  explicit TickClock(uint64_t nanoseconds_per_tick);

  // Of a moment in the last seconds.
  event::Timestamp at(uint64_t ticks) const;
  // To be called now and then.
  void keep();
  uint64_t nanoseconds(uint64_t ticks) const;

 private:
  void compare();

  uint64_t rate_;
  ClockReading first_, last_;
  uint64_t realtime_ = 0;  // at last_
};

}  // namespace rtrace::mech
