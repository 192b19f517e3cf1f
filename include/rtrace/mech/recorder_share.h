// What a recorded call costs on this machine, and how its time stamps count: measured on ourselves.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

namespace rtrace::mech {

struct RecorderShare {
  uint64_t nanoseconds_per_tick = 0;  // times 2^32
  // In ticks, low estimates: of a counted call's recorder, between its two stamps, and outside of them.
  uint32_t inside = 0, outside = 0;
};

// A few milliseconds long. Else why the recorder cannot tell time here.
std::variant<RecorderShare, std::string> measure_recorder();

}  // namespace rtrace::mech
