#include "rtrace/event/thread_clock.h"

#include <gtest/gtest.h>

namespace rtrace::event::thread_clock_test {
namespace {

TEST(ThreadClock, StandsStillWhileTheThreadIsHeld) {
  ThreadClock clock(1000);
  EXPECT_EQ(clock.stopped(1500), 500u);
  clock.ran(500);
  EXPECT_EQ(clock.time(), 500u);
  EXPECT_EQ(clock.stopped_at(), 1500u);
  clock.resumed(9000);
  EXPECT_EQ(clock.stopped(9100), 100u);
  clock.ran(100);
  EXPECT_EQ(clock.time(), 600u);
}

TEST(ThreadClock, TellsTheTimeWhileItRuns) {
  ThreadClock clock(1000);
  EXPECT_EQ(clock.time_at(900, 0), 0u) << "before it ran";
  EXPECT_EQ(clock.time_at(1500, 900), 0u) << "no more than has passed is another's";
  EXPECT_EQ(clock.time_at(1500, 200), 300u);
  EXPECT_EQ(clock.time_at(1500, 0), 500u);
  clock.halted(2000);
  EXPECT_EQ(clock.time_at(9000, 0), 1000u);
}

TEST(ThreadClock, TellsTheTimeBeforeTheLastStopOnceItIsKnown) {
  ThreadClock clock(1000);
  clock.stopped(2000);
  clock.ran(600);
  EXPECT_EQ(clock.time_at(1200, 400), 0u);
  EXPECT_EQ(clock.time_at(1800, 400), 400u);
  EXPECT_EQ(clock.time_at(2000, 0), 600u) << "no later than the stop";
  clock.resumed(5000);
  EXPECT_EQ(clock.time_at(5100, 0), 700u);
  EXPECT_EQ(clock.time_at(1800, 0), 700u) << "not before the last";
  EXPECT_EQ(clock.time_at(1800, 0, ThreadClock::Of::entry), 600u);
}

TEST(ThreadClock, NeverGoesBackBehindWhatItHasTold) {
  ThreadClock clock;
  EXPECT_EQ(clock.time_at(900, 0), 900u);
  EXPECT_EQ(clock.time_at(800, 0), 900u);
  EXPECT_EQ(clock.time_at(800, 0, ThreadClock::Of::entry), 800u);
  clock.stopped(1000);
  clock.ran(300);
  EXPECT_EQ(clock.time(), 900u);
}

TEST(ThreadClock, ARunOfWhichNothingIsLeftHasTakenSomething) {
  ThreadClock clock;
  clock.stopped(4'000);
  clock.ran(0);
  EXPECT_EQ(clock.time(), 1u);
  clock.resumed(5'000);
  clock.halted(5'000);
  EXPECT_EQ(clock.time(), 2u);
}

TEST(ThreadClock, OfSeveralStopsInOneHaltTheFirstCounts) {
  ThreadClock clock;
  clock.halted(100);
  EXPECT_EQ(clock.stopped(900), std::nullopt);
  clock.halted(950);
  EXPECT_EQ(clock.time(), 100u);
  EXPECT_EQ(clock.stopped_at(), 100u);
  clock.resumed(1000);
  clock.resumed(5000);
  clock.halted(1100);
  EXPECT_EQ(clock.time(), 200u);
}

TEST(StopCosts, AreWhatWasMeasuredWhileStopsTakeLonger) {
  StopCosts costs({.together = {5000, 3000}});
  for (int i = 0; i < 2000; ++i) costs.seen(5001);
  EXPECT_EQ(costs.low(), 5000u);
  EXPECT_EQ(costs.own(5020, std::nullopt), 20u);
  EXPECT_EQ(costs.own(4000, std::nullopt), 0u);
}

TEST(StopCosts, AreNoMoreThanAThreadTookAMomentAgo) {
  StopCosts costs({.together = {5000, 3000}});
  costs.seen(3000);
  EXPECT_EQ(costs.low(), 3000u);
  for (unsigned i = 0; i < StopCosts::kWindow - 1; ++i) costs.seen(9000);
  EXPECT_EQ(costs.low(), 3000u);
  for (unsigned i = 0; i < StopCosts::kWindow; ++i) costs.seen(9000);
  EXPECT_EQ(costs.low(), 5000u) << "that was long ago";
}

TEST(StopCosts, AStopThatWasThereAlreadyTellsNothing) {
  StopCosts costs({.together = {5000, 3000}});
  costs.seen(0);
  EXPECT_EQ(costs.low(), 5000u);
}

TEST(StopCosts, AreNothingWhereNothingWasMeasured) {
  StopCosts costs;
  costs.seen(3000);
  EXPECT_EQ(costs.low(), 0u);
  EXPECT_EQ(costs.own(2000, std::nullopt), 2000u);
}

TEST(StopCosts, OfALateStopTheSchedulersAccountTellsTheWakeUps) {
  StopCosts costs({.together = {5000, 3000}});
  EXPECT_FALSE(costs.doubtful(5900));
  EXPECT_TRUE(costs.doubtful(40'000));
  EXPECT_EQ(costs.own(90'000, StopCosts::Account{3'020, 1}), 20u);
  EXPECT_EQ(costs.own(25'000, StopCosts::Account{3'020, 1}), 20u);
  EXPECT_EQ(costs.own(125'000, StopCosts::Account{103'000, 1}), 100'000u);
}

TEST(StopCosts, OfAThreadThatSleptNoMoreIsTakenThanItsWakeUpMayHaveBeen) {
  StopCosts costs({.together = {5000, 3000}});
  for (int i = 0; i < 500; ++i) costs.own(i % 10 == 0 ? 8'000 : 90'000, StopCosts::Account{3'000, 1});
  EXPECT_GE(costs.own(1'008'000, StopCosts::Account{100'000, 2}), 995'000u);
}

TEST(StopCosts, OfAThreadThatSleptTheUsualWakeUpIsTaken) {
  StopCosts costs({.together = {5000, 3000}});
  EXPECT_EQ(costs.own(1'005'000, StopCosts::Account{4'000, 2}), 1'000'000u) << "none is known yet";
  for (int i = 0; i < 200; ++i) costs.own(i % 2 == 0 ? 29'000 : 37'000, StopCosts::Account{3'000, 1});
  EXPECT_NEAR(static_cast<double>(costs.own(1'033'000, StopCosts::Account{4'000, 2})), 1'000'000.0, 5'000.0);
}

TEST(StopCosts, OthersTurnsAreNotTakenForTheUsualWakeUp) {
  StopCosts costs({.together = {5000, 3000}});
  for (int i = 0; i < 20; ++i) {
    costs.own(15'000'000, StopCosts::Account{3'000, 1});
    EXPECT_GE(costs.own(20'060'000, StopCosts::Account{60'000, 2}), 20'000'000u) << i;
  }
}

TEST(StopCosts, AcrossProcessorsTheThreadRunsLongerUntilItHasStopped) {
  using Tracer = StopCosts::Tracer;
  StopCosts costs({.together = {9000, 4000}, .awake = {20'000, 6000}, .asleep = {45'000, 14'000}});
  const auto own = [&](uint64_t passed, uint64_t ran, Tracer tracer) {
    return costs.own(passed, StopCosts::Account{ran, 1}, tracer);
  };
  EXPECT_EQ(own(20'100, 6'100, Tracer::elsewhere_awake), 100u);
  EXPECT_EQ(own(120'000, 106'000, Tracer::elsewhere_awake), 100'000u);
  EXPECT_EQ(own(45'100, 14'100, Tracer::elsewhere_asleep), 100u);
  EXPECT_EQ(own(45'100, 14'100, Tracer::on_its_processor), 10'100u) << "never more than there may have been";
  EXPECT_EQ(own(90'000, 4'100, Tracer::on_its_processor), 100u) << "it waited for others";
}

TEST(StopCosts, WhereNothingWasMeasuredAcrossProcessorsTheLessIsTaken) {
  StopCosts costs({.together = {9000, 4000}});
  EXPECT_EQ(costs.own(45'000, StopCosts::Account{14'000, 1}, StopCosts::Tracer::elsewhere_asleep), 10'000u);
}

TEST(StopCosts, AnAccountOfMoreThanHasPassedIsNone) {
  StopCosts costs({.together = {5000, 3000}});
  EXPECT_EQ(costs.own(5'100, StopCosts::Account{9'000, 1}), 100u);
}

}  // namespace
}  // namespace rtrace::event::thread_clock_test
