#include "rtrace/session/cpu_follower.h"

#include <gtest/gtest.h>

namespace rtrace::session {
namespace {

constexpr uint64_t kMs = 1'000'000;

TEST(CpuChoice, FollowsAThreadThatWasSeenSeveralTimesInOnePlace) {
  CpuChoice choice;
  for (unsigned i = 1; i < CpuChoice::kAgree; ++i) EXPECT_EQ(choice.seen(3, i * kMs), std::nullopt);
  EXPECT_EQ(choice.seen(3, 9 * kMs), 3);
  EXPECT_EQ(choice.seen(3, 10 * kMs), 3);
}

TEST(CpuChoice, LetsGoOfAThreadThatMovesAwayAndWaitsLongerEachTime) {
  CpuChoice choice;
  uint64_t now = 0;
  const auto follow = [&](int cpu) {
    for (unsigned i = 0; i < CpuChoice::kAgree; ++i) choice.seen(cpu, now += kMs);
    return choice.seen(cpu, now += kMs);
  };
  ASSERT_EQ(follow(1), 1);
  EXPECT_EQ(choice.seen(0, now += kMs), 1);
  EXPECT_EQ(choice.seen(0, now += kMs), std::nullopt);
  EXPECT_EQ(follow(0), std::nullopt);
  now += CpuChoice::kFirstPause;
  EXPECT_EQ(follow(0), 0);
  choice.seen(1, now += kMs);
  EXPECT_EQ(choice.seen(1, now += kMs), std::nullopt);
  now += CpuChoice::kFirstPause;
  EXPECT_EQ(follow(1), std::nullopt);
  now += CpuChoice::kFirstPause;
  EXPECT_EQ(follow(1), 1);
}

TEST(CpuChoice, ThreadsOnSeveralProcessorsAreNotFollowed) {
  CpuChoice choice;
  for (unsigned i = 0; i < 100; ++i) EXPECT_EQ(choice.seen(i % 2 == 0 ? 0 : 1, i * kMs), std::nullopt);
}

TEST(CpuChoice, OneSampleElsewhereIsNoMove) {
  CpuChoice choice;
  for (unsigned i = 0; i < CpuChoice::kAgree; ++i) choice.seen(1, i * kMs);
  EXPECT_EQ(choice.seen(0, 10 * kMs), 1);
  EXPECT_EQ(choice.seen(1, 11 * kMs), 1);
  EXPECT_EQ(choice.seen(0, 12 * kMs), 1);
}

}  // namespace
}  // namespace rtrace::session
