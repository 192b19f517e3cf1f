#include "rtrace/tracee/seizing.h"

#include <gtest/gtest.h>

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <thread>

#include "child.h"
#include "rtrace/tracee/proc_fs.h"
#include "rtrace/tracee/thread.h"

namespace rtrace::tracee::seizing_test {
namespace {

using tests::Child;
using tests::Pipe;
using tests::SharedValue;

constexpr unsigned kPatience = 20'000;  // ms

// One of its threads becomes another program when told, its first one makes a third when told.
struct Tids {
  std::atomic<pid_t> execer, made;
};

int threads(const SharedValue<Tids>& tids, const Pipe& make, const Pipe& exec) {
  std::thread execer([&] {
    tids->execer = gettid();
    if (exec.wait()) execl("/bin/true", "true", nullptr);
  });
  make.wait();
  std::thread made([&] {
    tids->made = gettid();
    for (;;) pause();
  });
  made.join();
  return 1;
}

// The first thread's own stop, that it has made another, and the other's first.
void let_it_make(pid_t pid) {
  const auto event = consume_within(pid, kPatience);
  ASSERT_TRUE(event);
  ASSERT_TRUE(std::holds_alternative<NewTask>(classify(event->status)));
  const auto made = event_message(pid);
  ASSERT_TRUE(made);
  ASSERT_EQ(resume(pid), Alive::yes);
  ASSERT_TRUE(consume_within(static_cast<pid_t>(*made), kPatience));
  ASSERT_EQ(resume(static_cast<pid_t>(*made)), Alive::yes);
}

void wait_for_exec_to_wait(pid_t ended) {
  for (auto status = read_status(ended); status && status->state != 'Z'; status = read_status(ended))
    sched_yield();
}

// Ended threads that are ours by their creator's seizure are reaped too, or the exec waits for us and we for
// it; for that SIGALRM need not have been free.
void seize_amid_exec() {
  const SharedValue<Tids> tids;
  const Pipe make, exec;
  Child child([&] { return threads(tids, make, exec); });
  while (tids->execer == 0) sched_yield();
  Seizing seizing(child.pid());
  ASSERT_EQ(seizing.seize(child.pid()), 0);
  make.signal();
  let_it_make(child.pid());
  while (tids->made == 0) sched_yield();
  exec.signal();
  wait_for_exec_to_wait(tids->made);
  Child guard([&] {  // without it a seize() that nobody rescues would never end
    sleep(kPatience / 1000);
    kill(child.pid(), SIGKILL);
    return 0;
  });
  (void)seizing.seize(tids->execer);
  const auto ended = seizing.take_ended();
  EXPECT_TRUE(std::ranges::any_of(ended, [&](const WaitEvent& event) { return event.tid == tids->made; }));
}

TEST(Seizing, ReapsWhatAnExecWaitsForWhoeverSeizedIt) {
  seize_amid_exec();
}

TEST(Seizing, DoesSoWhereSigalrmWasBlockedAndBlocksItAgain) {
  sigset_t alarm, before, now;
  sigemptyset(&alarm);
  sigaddset(&alarm, SIGALRM);
  pthread_sigmask(SIG_BLOCK, &alarm, &before);
  seize_amid_exec();
  pthread_sigmask(SIG_SETMASK, &before, &now);
  EXPECT_EQ(sigismember(&now, SIGALRM), 1);
}

// A process of two threads that goes on until it is killed.
int two_threads(const SharedValue<Tids>& tids) {
  std::thread made([&] {
    tids->made = gettid();
    for (;;) pause();
  });
  made.join();
  return 1;
}

TEST(Seizing, LeavesTheStopsOfThreadsForWhoWaitsForThem) {
  const SharedValue<Tids> tids;
  Child child([&] { return two_threads(tids); });
  while (tids->made == 0) sched_yield();
  Seizing seizing(child.pid());
  ASSERT_EQ(seizing.seize(child.pid()), 0);
  ASSERT_EQ(seizing.seize(tids->made), 0);
  ASSERT_EQ(interrupt(tids->made), Alive::yes);
  while (!peek(tids->made)) sched_yield();

  constexpr int kTimes = 20'000;
  std::atomic<int> seized = 0;
  std::thread alarms([&, seizer = gettid()] {
    for (int now = seized; now < kTimes; now = seized) {
      tgkill(getpid(), seizer, SIGALRM);
      while (seized == now) sched_yield();
    }
  });
  for (; seized < kTimes; ++seized) EXPECT_NE(seizing.seize(child.pid()), 0);  // it is ours already
  alarms.join();

  EXPECT_TRUE(seizing.take_ended().empty());
  const auto stop = peek(tids->made);
  EXPECT_TRUE(stop && std::holds_alternative<Interrupted>(classify(stop->status)));
  kill(child.pid(), SIGKILL);
  while (const auto event = consume(tids->made, Block::yes))  // else the process's end would not be told
    if (event->status.is_end()) break;
}

TEST(Seizing, ATickThatComesLateInterruptsNoOtherCall) {
  Seizing seizing(getpid());
  const Pipe pipe;
  std::thread other([&, seizer = gettid()] {
    tests::wait_until_in_syscall(seizer, SYS_read);
    tgkill(getpid(), seizer, SIGALRM);
    for (auto status = read_status(seizer); (status->pending & signal_bit(SIGALRM)) != 0;)
      status = read_status(seizer);
    pipe.signal();
  });
  EXPECT_TRUE(pipe.wait());
  other.join();
}

}  // namespace
}  // namespace rtrace::tracee::seizing_test
