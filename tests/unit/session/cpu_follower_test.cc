#include "rtrace/session/cpu_follower.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "rtrace/tracee/proc_fs.h"
#include "tracee/child.h"

namespace rtrace::session::cpu_follower_test {
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

// The processors that the calling thread may use.
cpu_set_t affinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  return set;
}

TEST(CpuFollower, StaysByAThreadUntilItIsToRunFree) {
  const cpu_set_t all = affinity();
  if (CPU_COUNT(&all) < 2) GTEST_SKIP() << "there is one processor";
  const int here = sched_getcpu();
  const tests::Child child([here]() -> int {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<size_t>(here), &one);
    sched_setaffinity(0, sizeof one, &one);
    for (;;) pause();
  });
  while (tracee::last_processor(child.pid(), child.pid()) != here) sched_yield();
  CpuFollower follower(Options::Cpu::follow);
  uint64_t now = 1000 * kMs;
  for (unsigned i = 0; i < CpuChoice::kAgree; ++i)
    follower.hit(child.pid(), child.pid(), now += 10 * kMs, false);
  const cpu_set_t followed = affinity();
  EXPECT_EQ(CPU_COUNT(&followed), 1);
  EXPECT_TRUE(CPU_ISSET(static_cast<size_t>(here), &followed));
  follower.run_free(now);
  const cpu_set_t after = affinity();
  EXPECT_TRUE(CPU_EQUAL(&after, &all));
}

}  // namespace
}  // namespace rtrace::session::cpu_follower_test
