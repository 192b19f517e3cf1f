// What a recorded call costs on this machine, and how its time stamps count: measured on ourselves.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "rtrace/agent/recorder.h"

namespace rtrace::mech {

struct RecorderShare {
  uint64_t nanoseconds_per_tick = 0;  // times 2^32
  // In ticks, low estimates: of a call's recorder, between its two stamps, and outside of them.
  uint32_t inside = 0, outside = 0;
};

// A few milliseconds long, for calls that are counted or recorded. Else why the recorder cannot tell time
// here.
std::variant<RecorderShare, std::string> measure_recorder(agent::Mode mode);

// The time stamp counter and CLOCK_MONOTONIC, read as close together as can be had.
struct ClockReading {
  uint64_t ticks = 0, nanoseconds = 0;
};
ClockReading read_clocks();

}  // namespace rtrace::mech
