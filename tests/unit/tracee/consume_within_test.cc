#include <gtest/gtest.h>

#include <csignal>

#include "child.h"
#include "rtrace/tracee/thread.h"

namespace rtrace::tracee {
namespace {

using tests::Child;

bool is_blocked(int signal) {
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  return sigismember(&mask, signal) == 1;
}

int sleep_for_ever() {
  for (;;) pause();
}

TEST(ConsumeWithin, ReturnsWithTheStopAndLeavesTheMaskAsItWas) {
  Child child(sleep_for_ever);
  ASSERT_EQ(seize(child.pid()), 0);
  ASSERT_EQ(interrupt(child.pid()), Alive::yes);
  const auto event = consume_within(child.pid(), 10'000);
  ASSERT_TRUE(event);
  EXPECT_TRUE(std::holds_alternative<Interrupted>(classify(event->status)));
  EXPECT_FALSE(is_blocked(SIGCHLD));
}

TEST(ConsumeWithin, GivesUpWhereNoStopComes) {
  Child child(sleep_for_ever);
  ASSERT_EQ(seize(child.pid()), 0);
  EXPECT_FALSE(consume_within(child.pid(), 5));
  EXPECT_FALSE(is_blocked(SIGCHLD));
}

// The front end reads them from a descriptor.
TEST(ConsumeWithin, LeavesTheSignalToWhoeverHadBlockedItBefore) {
  sigset_t child_signal, before;
  sigemptyset(&child_signal);
  sigaddset(&child_signal, SIGCHLD);
  pthread_sigmask(SIG_BLOCK, &child_signal, &before);
  Child other([] { return 0; });
  siginfo_t info{};
  waitid(P_PID, static_cast<id_t>(other.pid()), &info, WEXITED | WNOWAIT);
  Child child(sleep_for_ever);
  ASSERT_EQ(seize(child.pid()), 0);
  EXPECT_FALSE(consume_within(child.pid(), 5));
  const timespec none{};
  EXPECT_EQ(sigtimedwait(&child_signal, nullptr, &none), SIGCHLD);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace
}  // namespace rtrace::tracee
