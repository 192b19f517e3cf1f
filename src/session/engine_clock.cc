// The threads' own clocks: what of the time is not theirs.
#include "engine_core.h"
#include "own_share.h"

namespace rtrace::session {

// Before anything is traced: the first durations are to be right too.
void Engine::calibrate() {
  if (!shows_durations(options_) || options_.ltrace_compat) return;
  const auto cost = measure_stop_cost();
  if (!cost)
    return reporter_.say("rtrace's own share of durations could not be measured and is not subtracted");
  stop_share_ = event::StopShare(cost->low_ns);
  shared_.summary.share.low_ns = cost->low_ns;
  shared_.summary.share.spread_ns = cost->spread_ns;
  if (options_.raw_times)
    reporter_.say(
        fmt::format("each duration holds {:.1f}us +- {:.1f}us of rtrace's own, and what it does at a stop",
                    static_cast<double>(cost->low_ns) / 1e3, static_cast<double>(cost->spread_ns) / 1e3));
}

// The last that is done to a stopped thread before it is resumed.
void Engine::runs_on(Task& task) {
  const uint64_t now = monotonic_now();
  sink::OwnShare& share = shared_.summary.share;
  if (task.clock.held()) {
    ++share.stops;
    share.held_ns += now - task.clock.stopped_at();
  }
  task.clock.resumed(now);
}

}  // namespace rtrace::session
