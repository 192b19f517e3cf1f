#include "rtrace/mech/tick_clock.h"

#include <x86intrin.h>

#include <ctime>

namespace rtrace::mech {
namespace {

constexpr uint64_t kInterval = 1'000'000'000;  // ns

uint64_t read(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

}  // namespace

TickClock::TickClock(uint64_t nanoseconds_per_tick) : rate_(nanoseconds_per_tick) {
  compare();
  first_ = last_;
}

void TickClock::compare() {
  last_ = read_clocks();
  const uint64_t before = read(CLOCK_MONOTONIC);
  realtime_ = read(CLOCK_REALTIME) - (before - last_.nanoseconds);
}

void TickClock::keep() {
  if (nanoseconds(__rdtsc() - last_.ticks) < kInterval) return;
  compare();
  // The longer the two have run the better their rates are known.
  const auto passed = static_cast<unsigned __int128>(last_.nanoseconds - first_.nanoseconds) << 32;
  rate_ = static_cast<uint64_t>(passed / (last_.ticks - first_.ticks));
}

uint64_t TickClock::nanoseconds(uint64_t ticks) const {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(ticks) * rate_ >> 32);
}

event::Timestamp TickClock::at(uint64_t ticks) const {
  const bool after = ticks >= last_.ticks;
  const uint64_t distance = nanoseconds(after ? ticks - last_.ticks : last_.ticks - ticks);
  if (after) return {realtime_ + distance, last_.nanoseconds + distance};
  return {realtime_ - distance, last_.nanoseconds - distance};
}

}  // namespace rtrace::mech
