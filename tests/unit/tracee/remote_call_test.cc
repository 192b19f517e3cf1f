#include "rtrace/tracee/remote_call.h"

#include <gmock/gmock.h>
#include <linux/futex.h>
#include <sys/epoll.h>

#include <ctime>

#include "tracee/register_target.h"

namespace rtrace::tracee::remote_call_test {
namespace {

using tests::Child;
using tests::Gadget;
using tests::kBlocked;
using tests::Looping;
using tests::Pipe;
using tests::SharedValue;
using tests::show;

bool is_killed(pid_t tid) {
  const auto event = peek(tid);
  return event && event->status.code == CLD_KILLED;
}

TEST(RemoteCall, MapsMemoryAndLeavesTheThreadAsItWas) {
  const Gadget gadget;
  Looping target;
  const pid_t tid = target.pid();
  ASSERT_TRUE(tests::seize_and_stop(tid));
  const ProcessMemory memory(tid);
  const auto regs = registers(tid);
  const auto xstate = extended_state(tid);
  {
    RemoteCall remote(tid, memory, gadget.address());
    EXPECT_EQ(remote.call(SYS_getpid, {}), tid);
    const auto where =
        remote.call(SYS_mmap, {0, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, ~uint64_t{0}, 0});
    ASSERT_TRUE(where);
    ASSERT_GT(*where, 0);
    const VirtAddr mapped{static_cast<uint64_t>(*where)};
    const auto maps = read_maps(tid);
    const MapsEntry* entry = find_mapping(maps, mapped);
    ASSERT_NE(entry, nullptr);
    EXPECT_TRUE(entry->readable && !entry->writable && entry->range.contains(mapped + 8191));
    EXPECT_EQ(remote.call(SYS_munmap, {mapped.value, 8192}), 0);
    EXPECT_EQ(find_mapping(read_maps(tid), mapped), nullptr);
    EXPECT_EQ(remote.call(SYS_close, {~uint64_t{0}}), -EBADF);
  }
  EXPECT_EQ(show(*registers(tid)), show(*regs));
  EXPECT_EQ(*signal_mask(tid), kBlocked);
  EXPECT_TRUE(*extended_state(tid) == *xstate);
  ASSERT_EQ(detach(tid), Alive::yes);
  EXPECT_EQ(target.finish(), 0);
}

TEST(RemoteCall, NothingChangesWhereNoCallIsMade) {
  const Gadget gadget;
  Looping target;
  ASSERT_TRUE(tests::seize_and_stop(target.pid()));
  const ProcessMemory memory(target.pid());
  const auto regs = registers(target.pid());
  { RemoteCall remote(target.pid(), memory, gadget.address()); }
  EXPECT_EQ(show(*registers(target.pid())), show(*regs));
  ASSERT_EQ(detach(target.pid()), Alive::yes);
  EXPECT_EQ(target.finish(), 0);
}

TEST(RemoteCall, OfAThreadThatIsKilledHasNoAnswer) {
  const Gadget gadget;
  Looping target;
  ASSERT_TRUE(tests::seize_and_stop(target.pid()));
  const ProcessMemory memory(target.pid());
  RemoteCall remote(target.pid(), memory, gadget.address());
  EXPECT_EQ(remote.call(SYS_getpid, {}), target.pid());
  kill(target.pid(), SIGKILL);
  while (!is_killed(target.pid())) sched_yield();
  EXPECT_EQ(remote.call(SYS_getpid, {}), std::nullopt);
  EXPECT_EQ(remote.call(SYS_getpid, {}), std::nullopt);
}

TEST(RemoteCall, ASignalSentMeanwhileIsDeliveredAfterwards) {
  const Gadget gadget;
  Looping target;
  const pid_t tid = target.pid();
  ASSERT_TRUE(tests::seize_and_stop(tid));
  const ProcessMemory memory(tid);
  {
    RemoteCall remote(tid, memory, gadget.address());
    EXPECT_EQ(remote.call(SYS_getpid, {}), tid);
    kill(tid, SIGUSR2);
    EXPECT_EQ(remote.call(SYS_getpid, {}), tid);
  }
  ASSERT_EQ(resume(tid), Alive::yes);
  const auto event = consume(tid, Block::yes);
  ASSERT_TRUE(event);
  const Stop stop = classify(event->status);
  ASSERT_TRUE(std::holds_alternative<SignalDelivery>(stop));
  EXPECT_EQ(std::get<SignalDelivery>(stop).signal, SIGUSR2);
  ASSERT_EQ(detach(tid), Alive::yes);
  EXPECT_EQ(target.finish(), 0);
}

// --- Calls in a thread that sleeps in a system call of its own ---

struct Sleep {
  std::string name;
  long number;                                       // as /proc/PID/syscall shows it
  int (*body)(const Pipe&, std::atomic<uint32_t>&);  // 0 where it went as if nobody had been there
  void (*wake)(const Pipe&, std::atomic<uint32_t>&);
};

void wake_by_byte(const Pipe& pipe, std::atomic<uint32_t>&) {
  pipe.signal();
}

int sleep_in_read(const Pipe& pipe, std::atomic<uint32_t>&) {
  char byte = 0;
  return read(pipe.read_end(), &byte, 1) == 1 && byte == 1 ? 0 : 1;
}

int sleep_in_epoll_wait(const Pipe& pipe, std::atomic<uint32_t>&) {
  const int epoll = epoll_create1(0);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = 99;
  epoll_ctl(epoll, EPOLL_CTL_ADD, pipe.read_end(), &event);
  event = {};
  return syscall(SYS_epoll_wait, epoll, &event, 1, -1) == 1 && event.data.u64 == 99 ? 0 : 1;
}

// EAGAIN where the word changes before the thread is back in the call, as without a tracer.
int sleep_in_futex(const Pipe&, std::atomic<uint32_t>& word) {
  const bool woken = syscall(SYS_futex, &word, FUTEX_WAIT, 0, nullptr) == 0 || errno == EAGAIN;
  return woken && word == 1 ? 0 : 1;
}

void wake_futex(const Pipe&, std::atomic<uint32_t>& word) {
  word = 1;
  syscall(SYS_futex, &word, FUTEX_WAKE, 1);
}

// The remaining time is kept: it ends neither early nor much later than it would have.
int sleep_in_nanosleep(const Pipe&, std::atomic<uint32_t>&) {
  timespec before{}, after{}, remaining{};
  const timespec time{0, 300'000'000};
  clock_gettime(CLOCK_MONOTONIC, &before);
  if (syscall(SYS_nanosleep, &time, &remaining) != 0) return 1;
  clock_gettime(CLOCK_MONOTONIC, &after);
  const int64_t passed = (after.tv_sec - before.tv_sec) * 1'000'000'000 + after.tv_nsec - before.tv_nsec;
  return passed >= time.tv_nsec ? 0 : 2;
}

void PrintTo(const Sleep& sleep, std::ostream* out) {
  *out << sleep.name;
}

class RemoteCallInSleep : public testing::TestWithParam<Sleep> {};

TEST_P(RemoteCallInSleep, IsNotNoticed) {
  const Sleep& sleep = GetParam();
  const Gadget gadget;
  const Pipe pipe;
  SharedValue<std::atomic<uint32_t>> word;
  Child child([&] { return sleep.body(pipe, *word); });
  const pid_t tid = child.pid();
  tests::wait_until_in_syscall(tid, sleep.number);
  ASSERT_TRUE(tests::seize_and_stop(tid));
  const ProcessMemory memory(tid);
  {
    RemoteCall remote(tid, memory, gadget.address());
    EXPECT_EQ(remote.call(SYS_getpid, {}), tid);
    EXPECT_GT(remote.call(SYS_mmap, {0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, ~uint64_t{0}, 0}), 0);
  }
  ASSERT_EQ(detach(tid), Alive::yes);
  sleep.wake(pipe, *word);
  EXPECT_EQ(child.end(), 0);
}

INSTANTIATE_TEST_SUITE_P(Each, RemoteCallInSleep,
                         testing::Values(Sleep{"read", SYS_read, sleep_in_read, wake_by_byte},
                                         Sleep{"epoll_wait", SYS_epoll_wait, sleep_in_epoll_wait,
                                               wake_by_byte},
                                         Sleep{"futex", SYS_futex, sleep_in_futex, wake_futex},
                                         Sleep{"nanosleep", SYS_nanosleep, sleep_in_nanosleep,
                                               [](const Pipe&, std::atomic<uint32_t>&) {}}),
                         [](const auto& row) { return row.param.name; });

// --- The tracer's death ---

// A whole trace: seize, stop, two remote calls, detach.
int trace_once(pid_t target, VirtAddr gadget) {
  if (!tests::seize_and_stop(target)) return 1;
  const ProcessMemory memory(target);
  {
    RemoteCall remote(target, memory, gadget);
    const auto where =
        remote.call(SYS_mmap, {0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, ~uint64_t{0}, 0});
    if (!where || *where <= 0) return 2;
    if (remote.call(SYS_munmap, {static_cast<uint64_t>(*where), 4096}) != 0) return 3;
  }
  return detach(target) == Alive::yes ? 0 : 4;
}

// Kills a tracer of `target` when it stands before or behind its n-th system call. False once it has come to
// its end.
bool kill_at(size_t stop, pid_t target, VirtAddr gadget) {
  const Pipe seized;
  Child tracer([&] { return seized.wait() ? trace_once(target, gadget) : 5; });
  EXPECT_EQ(seize(tracer.pid()), 0);
  seized.signal();
  for (size_t i = 0; i < stop; ++i) {
    (void)resume_to_syscall(tracer.pid());
    const auto event = consume(tracer.pid(), Block::yes);
    if (event && !event->status.is_end()) continue;
    tracer.reaped();
    EXPECT_TRUE(event && event->status == (WaitStatus{CLD_EXITED, 0})) << "the trace went wrong by itself";
    return false;
  }
  kill(tracer.pid(), SIGKILL);
  while (tracer.end() >= 1000) {
  }
  return true;
}

TEST(RemoteCall, TheTracersDeathAtAnySystemCallOfItsOwnLeavesTheTargetUnharmed) {
  const Gadget gadget;
  size_t stop = 1;
  for (bool more = true; more; ++stop) {
    Looping target;
    more = kill_at(stop, target.pid(), gadget.address());
    ASSERT_EQ(target.finish(), 0) << "killed at its stop " << stop;
  }
  EXPECT_GT(stop, 40u) << "every system call of the trace stops twice";
}

}  // namespace
}  // namespace rtrace::tracee::remote_call_test
