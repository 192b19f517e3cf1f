#include "rtrace/event/thread_clock.h"

namespace rtrace::event {
namespace {

// Towards what one of some thirty is below: down by far larger steps than up.
uint64_t nearer_low_end(uint64_t estimate, uint64_t seen) {
  return seen > estimate ? std::min(estimate + estimate / 256 + 1, seen)
                         : std::max(estimate - estimate / 8, seen);
}

uint64_t less(uint64_t from, uint64_t what) {
  return from - std::min(from, what);
}

}  // namespace

void StopCosts::seen(uint64_t passed) {
  if (passed == 0) return;  // it was there already
  if (++stops_ == kWindow) {
    before_ = least_;
    least_ = ~uint64_t{0};
    stops_ = 0;
  }
  least_ = std::min(least_, passed);
}

uint64_t StopCosts::ran_to_stop(Tracer tracer) const {
  const uint64_t together = measured_.together.ran;
  if (tracer == Tracer::on_its_processor) return together;
  return std::max(together, tracer == Tracer::elsewhere_awake ? measured_.awake.ran : measured_.asleep.ran);
}

uint64_t StopCosts::own(uint64_t passed, std::optional<Account> account, Tracer tracer) {
  if (!account || account->ran > passed) return less(passed, low());
  const uint64_t ran = measured_.together.ran;
  if (account->slices <= 1) {
    // Neither did it sleep, nor did another take its place: what it was not running it was being woken, or
    // we.
    woke(passed - account->ran);
    return less(account->ran, ran_to_stop(tracer));
  }
  // Even the low end may be more than it was this time; what it ran it ran.
  return std::max(less(passed, wakes_ == kFew ? wake_up_ + ran : low()), less(account->ran, ran));
}

// On a busy machine the first may have been late by others' turns, which are a thousand times as long.
void StopCosts::woke(uint64_t took) {
  constexpr uint64_t kMost = 16;  // times what was measured
  const auto waited = [](const Stop& stop) { return less(stop.passed, stop.ran); };
  const auto& [together, awake, asleep] = measured_;
  took = std::min(took, kMost * std::max({waited(together), waited(awake), waited(asleep)}));
  if (wakes_ == kFew) {
    wake_up_ = nearer_low_end(wake_up_, took);
  } else {
    wake_up_ = wakes_++ == 0 ? took : std::min(wake_up_, took);
  }
}

}  // namespace rtrace::event
