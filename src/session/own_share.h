// How much of a measured duration is rtrace's own: found out on this machine, as busy as it is.
#pragma once

#include <cstdint>
#include <optional>

#include "rtrace/event/thread_clock.h"
#include "rtrace/session/options.h"

namespace rtrace::session {

// Whether anything that is asked for shows durations.
bool shows_durations(const Options& options);

struct StopCost {
  event::StopCosts::Measured stops;
  uint64_t spread_ns = 0;  // of those together: half the distance from the 10th to the 90th percentile
};

// Traces a child of our own that does nothing but trap, a few milliseconds long, by the requests that the
// engine makes at a hit. No other task may be traced yet. nullopt where there is no such child.
std::optional<StopCost> measure_stop_cost();

}  // namespace rtrace::session
