#include "rtrace/event/thread_clock.h"

#include <gtest/gtest.h>

namespace rtrace::event {
namespace {

TEST(ThreadClock, StandsStillWhileTheThreadIsHeld) {
  ThreadClock clock(1000);
  clock.stopped(1500, 0);
  EXPECT_EQ(clock.time(), 500u);
  EXPECT_EQ(clock.stopped_at(), 1500u);
  clock.resumed(9000);
  clock.stopped(9100, 0);
  EXPECT_EQ(clock.time(), 600u);
}

TEST(ThreadClock, TakesTheTracersShareFromEachRun) {
  ThreadClock clock;
  clock.stopped(5'020, 5'000);
  clock.resumed(7'000);
  clock.stopped(12'030, 5'000);
  EXPECT_EQ(clock.time(), 50u);
}

TEST(ThreadClock, AThousandHaltsWithinACallAreNoneOfItsTime) {
  ThreadClock clock;
  uint64_t now = 0;
  for (int i = 0; i < 1000; ++i) {
    clock.stopped(now += 5'020, 5'000);
    clock.resumed(now += 3'000);
  }
  EXPECT_EQ(clock.time(), 20'000u);
}

TEST(ThreadClock, ARunThatTookLessThanTheShareHasTakenSomething) {
  ThreadClock clock;
  clock.stopped(4'000, 5'000);
  EXPECT_EQ(clock.time(), 1u);
  clock.resumed(5'000);
  clock.stopped(5'000, 0);
  EXPECT_EQ(clock.time(), 2u);
}

TEST(ThreadClock, OfSeveralStopsInOneHaltTheFirstCounts) {
  ThreadClock clock;
  clock.stopped(100, 0);
  clock.stopped(900, 0);
  EXPECT_EQ(clock.time(), 100u);
  EXPECT_EQ(clock.stopped_at(), 100u);
  clock.resumed(1000);
  clock.resumed(5000);
  clock.stopped(1100, 0);
  EXPECT_EQ(clock.time(), 200u);
}

TEST(ThreadClock, TellsHowLongTheThreadHasRun) {
  ThreadClock clock(100);
  EXPECT_EQ(clock.ran(350), 250u);
  clock.stopped(400, 0);
  EXPECT_EQ(clock.ran(500), 0u) << "it is held";
}

TEST(StopShare, IsWhatWasMeasuredWhileStopsTakeLonger) {
  StopShare share(5000);
  for (int i = 0; i < 2000; ++i) share.seen(5001);
  EXPECT_EQ(share.low(), 5000u);
}

TEST(StopShare, IsNoMoreThanAThreadTookAMomentAgo) {
  StopShare share(5000);
  share.seen(3000);
  EXPECT_EQ(share.low(), 3000u);
  for (unsigned i = 0; i < StopShare::kWindow - 1; ++i) share.seen(9000);
  EXPECT_EQ(share.low(), 3000u);
  for (unsigned i = 0; i < StopShare::kWindow; ++i) share.seen(9000);
  EXPECT_EQ(share.low(), 5000u) << "that was long ago";
}

TEST(StopShare, IsNothingWhereNothingWasMeasured) {
  StopShare share;
  share.seen(3000);
  EXPECT_EQ(share.low(), 0u);
}

}  // namespace
}  // namespace rtrace::event
