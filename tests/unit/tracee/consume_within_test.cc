#include <gtest/gtest.h>

#include <sys/prctl.h>

#include <csignal>

#include "child.h"
#include "rtrace/tracee/thread.h"

namespace rtrace::tracee::consume_within_test {
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

// A tracer that dies between the two is the reason to peek: the signal is the program's.
TEST(StopWithin, LeavesASignalToTheKernelUntilItIsConsumed) {
  Child child([] {
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    std::signal(SIGUSR1, [](int) { _exit(7); });
    alarm(20);  // where it is lost
    return sleep_for_ever();
  });
  Child tracer([&child] {
    while (seize(child.pid()) != 0) sched_yield();
    for (auto status = read_status(child.pid()); status && (status->caught & signal_bit(SIGUSR1)) == 0;)
      status = read_status(child.pid());
    kill(child.pid(), SIGUSR1);
    const auto event = stop_within(child.pid(), 10'000);
    return event && std::holds_alternative<SignalDelivery>(classify(event->status)) ? 0 : 1;
  });
  EXPECT_EQ(tracer.end(), 0);
  EXPECT_EQ(child.end(), 7);
}

TEST(StopWithin, ConsumesTheStopThatWasAskedFor) {
  Child child(sleep_for_ever);
  ASSERT_EQ(seize(child.pid()), 0);
  ASSERT_EQ(interrupt(child.pid()), Alive::yes);
  const auto event = stop_within(child.pid(), 10'000);
  ASSERT_TRUE(event);
  EXPECT_TRUE(std::holds_alternative<Interrupted>(classify(event->status)));
  EXPECT_FALSE(peek(child.pid()));
}

}  // namespace
}  // namespace rtrace::tracee::consume_within_test
