#include "rtrace/tracee/remote_call.h"

#include <gmock/gmock.h>
#include <linux/futex.h>
#include <sys/epoll.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ctime>

#include <cstring>

#include "tracee/child.h"
#include "tracee/register_loop.h"

namespace rtrace::tracee {
namespace {

using tests::Child;
using tests::Pages;
using tests::Pipe;
using tests::RegisterLoop;
using tests::SharedValue;

// The gadget in a page that the children inherit.
class Gadget {
 public:
  Gadget() {
    std::memcpy(page_.data(), kRemoteCallGadget.data(), kRemoteCallGadget.size());
    page_.protect(PROT_READ | PROT_EXEC);
  }
  VirtAddr address() const { return page_.address(); }
  VirtAddr sigreturn() const { return page_.address() + 2; }

 private:
  Pages page_{1, PROT_READ | PROT_WRITE};
};

// Signals that the target blocks, and its alternate stack: nothing of ours may change them.
constexpr uint64_t kBlocked = signal_bit(SIGUSR1) | signal_bit(SIGWINCH) | signal_bit(40);
alignas(16) char alternate_stack[16384];

uint64_t own_mask() {
  uint64_t mask = 0;
  syscall(SYS_rt_sigprocmask, SIG_BLOCK, nullptr, &mask, sizeof mask);
  return mask;
}

// The body of a target that answers by its exit status: 0 where all was kept, else a bit for each thing that
// was not.
int keep_registers(RegisterLoop& loop) {
  const uint64_t blocked = kBlocked;
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &blocked, nullptr, sizeof blocked);
  stack_t stack{};
  stack.ss_sp = alternate_stack;
  stack.ss_size = sizeof alternate_stack;
  sigaltstack(&stack, nullptr);
  errno = 77;
  tests::rtrace_test_register_loop(&loop);
  int spoilt = errno == 77 ? 0 : 1;
  if (loop.spoilt != 0) spoilt |= 2;
  if (!loop.vectors_kept()) spoilt |= 4;
  if (!(loop.pi > 3.14159265358979L && loop.pi < 3.14159265358980L)) spoilt |= 8;
  if (own_mask() != kBlocked) spoilt |= 16;
  stack_t now{};
  if (sigaltstack(nullptr, &now) != 0 || now.ss_sp != alternate_stack || now.ss_flags != 0 ||
      now.ss_size != sizeof alternate_stack)
    spoilt |= 32;
  return spoilt;
}

// A target inside its register loop.
class Looping {
 public:
  Looping() {
    loop_->fill_patterns();
    child_.emplace([this] {
      // A tracer of ours may be a sibling.
      prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
      return keep_registers(*loop_);
    });
    while (loop_->state.load() != RegisterLoop::kLooping) sched_yield();
  }
  pid_t pid() const { return child_->pid(); }
  int finish() {
    loop_->state = RegisterLoop::kGoOn;
    return child_->end();
  }

 private:
  SharedValue<RegisterLoop> loop_;
  std::optional<Child> child_;
};

// What the thread will run on with; a tracer sees orig_rax, the program does not.
std::string show(const arch::Regs& regs) {
  const auto& r = regs.raw;
  return fmt::format(
      "{:x} {:x} {:x} {:x} {:x} {:x} {:x} {:x} | {:x} {:x} {:x} {:x} {:x} {:x} {:x} {:x} | rip {:x} "
      "flags {:x} cs {:x} ss {:x} fs {:x} gs {:x}",
      r.rax, r.rbx, r.rcx, r.rdx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14,
      r.r15, r.rip, r.eflags, r.cs, r.ss, r.fs_base, r.gs_base);
}

bool is_killed(pid_t tid) {
  const auto event = peek(tid);
  return event && event->status.code == CLD_KILLED;
}

bool to_syscall_stop(pid_t tid) {
  if (resume_to_syscall(tid) == Alive::gone) return false;
  const auto event = consume(tid, Block::yes);
  return event && std::holds_alternative<SyscallStop>(classify(event->status));
}

// --- The frame ---

template <typename T>
T at(const std::vector<std::byte>& bytes, size_t offset) {
  T value{};
  if (offset + sizeof value <= bytes.size()) std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

// asm/sigframe.h, struct rt_sigframe: pretcode, then struct ucontext, from which these are counted.
constexpr size_t kContext = 8, kGeneral = kContext + 40, kMask = kGeneral + 256, kFpstate = kGeneral + 184;

TEST(SigreturnFrame, RegistersLieInTheKernelsOrder) {
  arch::Regs regs;
  auto& r = regs.raw;
  r.r8 = 8, r.r9 = 9, r.r10 = 10, r.r11 = 11, r.r12 = 12, r.r13 = 13, r.r14 = 14, r.r15 = 15;
  r.rdi = 16, r.rsi = 17, r.rbp = 18, r.rbx = 19, r.rdx = 20, r.rax = 21, r.rcx = 22, r.rsp = 23, r.rip = 24;
  r.eflags = 0x246, r.cs = 0x33, r.ss = 0x2b;
  const auto frame = make_sigreturn_frame(VirtAddr{0x7fff0000 - 8}, regs, 0xabcdef, {});
  for (uint64_t i = 8; i <= 24; ++i) EXPECT_EQ(at<uint64_t>(frame, kGeneral + (i - 8) * 8), i) << i;
  EXPECT_EQ(at<uint64_t>(frame, kGeneral + 17 * 8), 0x246u);
  EXPECT_EQ(at<uint16_t>(frame, kGeneral + 18 * 8), 0x33u);
  EXPECT_EQ(at<uint16_t>(frame, kGeneral + 18 * 8 + 6), 0x2bu);
  EXPECT_EQ(at<uint64_t>(frame, kMask), 0xabcdefu);
  EXPECT_EQ(at<uint64_t>(frame, kFpstate), 0u) << "without extended state there is no pointer to it";
  EXPECT_EQ(at<uint64_t>(frame, kContext) & 1, 0u) << "UC_FP_XSTATE";
  const auto alternate_flags = at<int32_t>(frame, kContext + 24);
  EXPECT_NE(alternate_flags, 0);
  EXPECT_NE(alternate_flags, SS_DISABLE);
}

TEST(SigreturnFrame, ExtendedStateIsAlignedAndBetweenItsMagicWords) {
  std::vector<std::byte> xstate(832);  // x87, SSE and AVX
  const uint64_t features = 7;
  std::memcpy(xstate.data() + 464, &features, sizeof features);
  std::memcpy(xstate.data() + 512, &features, sizeof features);
  xstate[160] = std::byte{0x5a};  // xmm0
  xstate[576] = std::byte{0xa5};  // the upper half of ymm0
  const VirtAddr where{0x7fff0000 - 8};
  const auto frame = make_sigreturn_frame(where, {}, 0, xstate);
  const uint64_t pointer = at<uint64_t>(frame, kFpstate);
  EXPECT_EQ(pointer % 64, 0u) << "XRSTOR faults otherwise";
  ASSERT_GE(pointer, where.value + kMask + 8);
  const size_t state = pointer - where.value;
  ASSERT_GE(frame.size(), state + 576 + 4);
  EXPECT_EQ(at<uint64_t>(frame, kContext) & 1, 1u) << "UC_FP_XSTATE";
  EXPECT_EQ(at<uint32_t>(frame, state + 464), 0x46505853u) << "FP_XSTATE_MAGIC1";
  const auto extended = at<uint32_t>(frame, state + 468), size = at<uint32_t>(frame, state + 480);
  EXPECT_EQ(at<uint64_t>(frame, state + 472), features);
  EXPECT_EQ(extended, size + 4);
  ASSERT_EQ(frame.size(), state + extended);
  EXPECT_EQ(at<uint32_t>(frame, state + size), 0x46505845u) << "FP_XSTATE_MAGIC2";
  EXPECT_EQ(at<uint8_t>(frame, state + 160), 0x5a);
  if (__builtin_cpu_supports("avx")) {
    EXPECT_EQ(at<uint8_t>(frame, state + 576), 0xa5);
  }
}

TEST(SigreturnFrame, TheKernelRestoresAllOfAThreadFromIt) {
  const Gadget gadget;
  Looping target;
  const pid_t tid = target.pid();
  ASSERT_TRUE(tests::seize_and_stop(tid));
  const ProcessMemory memory(tid);
  const auto regs = registers(tid);
  const auto mask = signal_mask(tid);
  const auto xstate = extended_state(tid);
  ASSERT_TRUE(regs && mask && xstate);
  const VirtAddr where{((regs->raw.rsp - 20000) & ~uint64_t{63}) - 8};
  ASSERT_EQ(memory.write(where, make_sigreturn_frame(where, *regs, *mask, *xstate)), 0);

  // Everything else that the frame is to bring back is made wrong.
  std::vector<std::byte> wrong_state = *xstate;
  for (size_t i = 160; i < 416; ++i) wrong_state[i] ^= std::byte{0xff};  // xmm0-15
  iovec area{wrong_state.data(), wrong_state.size()};
  ASSERT_EQ(ptrace(PTRACE_SETREGSET, tid, reinterpret_cast<void*>(uint64_t{0x202}), &area),
            0);  // NT_X86_XSTATE
  ASSERT_EQ(set_signal_mask(tid, ~uint64_t{0}), Alive::yes);
  arch::Regs wrong = *regs;
  for (auto* field : {&wrong.raw.rax, &wrong.raw.rbx, &wrong.raw.rcx, &wrong.raw.rdx, &wrong.raw.rsi,
                      &wrong.raw.rdi, &wrong.raw.rbp, &wrong.raw.r8, &wrong.raw.r9, &wrong.raw.r10,
                      &wrong.raw.r11, &wrong.raw.r12, &wrong.raw.r13, &wrong.raw.r14, &wrong.raw.r15})
    *field = 0xdead;
  wrong.raw.eflags = 0x202;
  wrong.raw.orig_rax = ~uint64_t{0};
  wrong.set_pc(gadget.sigreturn());
  wrong.set_sp(where + 8);
  ASSERT_EQ(set_registers(tid, wrong), Alive::yes);
  ASSERT_TRUE(to_syscall_stop(tid));
  ASSERT_EQ(registers(tid)->raw.orig_rax, uint64_t{SYS_rt_sigreturn});
  ASSERT_TRUE(to_syscall_stop(tid));

  EXPECT_EQ(show(*registers(tid)), show(*regs));
  EXPECT_EQ(*signal_mask(tid), kBlocked);
  EXPECT_TRUE(*extended_state(tid) == *xstate);
  ASSERT_EQ(detach(tid), Alive::yes);
  EXPECT_EQ(target.finish(), 0);
}

// --- The call ---

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
}  // namespace rtrace::tracee
