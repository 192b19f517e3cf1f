#include "rtrace/mech/tick_clock.h"

#include <gtest/gtest.h>
#include <x86intrin.h>

#include <ctime>

namespace rtrace::mech::tick_clock_test {
namespace {

uint64_t now(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

class TickClockTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto measured = measure_recorder(agent::Mode::record);
    if (const auto* why = std::get_if<std::string>(&measured)) GTEST_SKIP() << *why;
    share = std::get<RecorderShare>(measured);
  }
  RecorderShare share;
};

TEST_F(TickClockTest, SaysWhatTheOtherClocksSaid) {
  TickClock clock(share.nanoseconds_per_tick);
  for (int i = 0; i < 100; ++i) {
    const uint64_t monotonic = now(CLOCK_MONOTONIC), realtime = now(CLOCK_REALTIME);
    const event::Timestamp stamp = clock.at(__rdtsc());
    const uint64_t monotonic_after = now(CLOCK_MONOTONIC), realtime_after = now(CLOCK_REALTIME);
    constexpr uint64_t kError = 20'000;  // ns: of a rate that was measured for four milliseconds
    ASSERT_GE(stamp.monotonic + kError, monotonic);
    ASSERT_LE(stamp.monotonic, monotonic_after + kError);
    ASSERT_GE(stamp.realtime + kError, realtime);
    ASSERT_LE(stamp.realtime, realtime_after + kError);
    clock.keep();
  }
}

TEST_F(TickClockTest, CountsBackwardsToo) {
  TickClock clock(uint64_t{2} << 32);  // two nanoseconds a tick
  const uint64_t ticks = __rdtsc();
  EXPECT_EQ(clock.at(ticks).monotonic - clock.at(ticks - 1000).monotonic, 2000u);
  EXPECT_EQ(clock.at(ticks).realtime - clock.at(ticks - 1000).realtime, 2000u);
  EXPECT_EQ(clock.nanoseconds(500), 1000u);
}

// Between the two stamps of a call that is recorded lies a share, too.
TEST_F(TickClockTest, TheRecordersShareIsThatOfCallsThatAreRecorded) {
  const TickClock clock(share.nanoseconds_per_tick);
  for (const agent::Mode mode : {agent::Mode::record, agent::Mode::count}) {
    const auto one = std::get<RecorderShare>(measure_recorder(mode));
    EXPECT_GT(one.inside, 0u);
    EXPECT_GT(one.outside, 0u);
    EXPECT_LT(clock.nanoseconds(one.inside + one.outside), 1000u);
  }
}

}  // namespace
}  // namespace rtrace::mech::tick_clock_test
