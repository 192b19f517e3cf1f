#include "rtrace/tracee/thread.h"

#include <elf.h>
#include <poll.h>
#include <sched.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <functional>
#include <utility>

#include "rtrace/base/error.h"
#include "rtrace/tracee/proc_fs.h"

namespace rtrace::tracee {
namespace {

constexpr long kOptions = PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE |
                          PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD;
constexpr int kAboutToEnd = SIGTRAP | PTRACE_EVENT_EXIT << 8;
std::function<void(pid_t)> about_to_end;

long usual_options() {
  return about_to_end ? kOptions | PTRACE_O_TRACEEXIT : kOptions;
}

// XSAVE areas grow with the CPU; 16 KiB holds AMX's tiles too.
constexpr size_t kUsualState = 3072, kExtendedStateLimit = 16384;
constexpr std::chrono::microseconds kAwake(60);  // twice what a stop took with a tracer that stays awake

void* as_pointer(uint64_t value) {
  return reinterpret_cast<void*>(value);
}

Alive request(__ptrace_request what, pid_t tid, void* address, void* data) {
  if (ptrace(what, tid, address, data) == 0) return Alive::yes;
  CHECK(errno == ESRCH || errno == EPERM || errno == EIO, "ptrace request {} of {}: errno {}",
        static_cast<int>(what), tid, errno);
  return Alive::gone;
}

Alive run_on(__ptrace_request how, pid_t tid, int signal) {
  forget_status(tid);
  return request(how, tid, nullptr, as_pointer(static_cast<uint64_t>(signal)));
}

// waitid(2) knows no time limit, but each stop raises SIGCHLD for its tracer, which sigtimedwait(2) takes
// while it is blocked.
class ChildSignal {
 public:
  ChildSignal() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGCHLD);
    sigset_t before;
    pthread_sigmask(SIG_BLOCK, &set_, &before);
    awaited_ = sigismember(&before, SIGCHLD) == 1;
  }
  ~ChildSignal() {
    // Whoever had blocked it waits for it, and may have been meant.
    if (awaited_ && taken_) kill(getpid(), SIGCHLD);
    if (!awaited_) pthread_sigmask(SIG_UNBLOCK, &set_, nullptr);
  }
  ChildSignal(const ChildSignal&) = delete;
  ChildSignal& operator=(const ChildSignal&) = delete;

  // Returns at the latest when it is worth a look whatever the signal says: where it is ignored, or another
  // thread takes it, there is none.
  void wait() {
    constexpr timespec kLongestWait{0, 100'000};
    if (sigtimedwait(&set_, nullptr, &kLongestWait) == SIGCHLD) taken_ = true;
  }

 private:
  sigset_t set_{};
  bool awaited_ = false, taken_ = false;
};

// Nobody waits for the stop of a thread that is about to end, which could not be kept from it: it is let go
// on here.
std::optional<WaitEvent> wait_for(idtype_t type, pid_t tid, int flags, bool* no_children = nullptr) {
  for (;;) {
    siginfo_t info{};
    if (waitid(type, static_cast<id_t>(tid), &info, flags | WEXITED | WSTOPPED | __WALL) != 0) {
      if (no_children != nullptr) *no_children = errno == ECHILD;
      return std::nullopt;
    }
    if (info.si_pid == 0) return std::nullopt;
    if (info.si_code != CLD_TRAPPED || info.si_status != kAboutToEnd)
      return WaitEvent{info.si_pid, {info.si_code, info.si_status}};
    if (about_to_end) about_to_end(info.si_pid);
    (void)resume(info.si_pid);
  }
}

int flag(Block block) {
  return block == Block::yes ? 0 : WNOHANG;
}

}  // namespace

void look_at_ends(std::function<void(pid_t)> look) {
  about_to_end = std::move(look);
}

static Alive set_options(pid_t tid, long options) {
  const auto wanted = static_cast<uint64_t>(options);
  return ptrace(PTRACE_SETOPTIONS, tid, nullptr, as_pointer(wanted)) == 0 ? Alive::yes : Alive::gone;
}

Alive set_at_end(pid_t tid, AtEnd what) {
  return set_options(tid, what == AtEnd::stops ? usual_options() : kOptions);
}

Alive stop_at_vfork_end(pid_t tid) {
  return set_options(tid, usual_options() | PTRACE_O_TRACEVFORKDONE);
}

int seize(pid_t tid) {
  return ptrace(PTRACE_SEIZE, tid, nullptr, as_pointer(static_cast<uint64_t>(usual_options()))) == 0 ? 0
                                                                                                     : errno;
}

bool suspend_seccomp(pid_t tid, bool suspended) {
  const long options = suspended ? usual_options() | PTRACE_O_SUSPEND_SECCOMP : usual_options();
  return set_options(tid, options) == Alive::yes;
}

std::optional<SyscallInfo> syscall_info(pid_t tid) {
  // <sys/ptrace.h> and <linux/ptrace.h> cannot both be included, and the C library's name for this differs.
  __ptrace_syscall_info raw{};
  if (ptrace(PTRACE_GET_SYSCALL_INFO, tid, as_pointer(sizeof raw), &raw) <= 0) return std::nullopt;
  SyscallInfo info;
  info.architecture = raw.arch;
  if (raw.op == PTRACE_SYSCALL_INFO_ENTRY) {
    info.moment = SyscallInfo::Moment::entry;
    info.number = raw.entry.nr;
    std::copy_n(raw.entry.args, info.arguments.size(), info.arguments.begin());
  } else if (raw.op == PTRACE_SYSCALL_INFO_EXIT) {
    info.moment = SyscallInfo::Moment::exit;
    info.result = raw.exit.rval;
  }
  return info;
}

Alive interrupt(pid_t tid) {
  return request(PTRACE_INTERRUPT, tid, nullptr, nullptr);
}

std::optional<arch::Regs> registers(pid_t tid) {
  arch::Regs regs;
  if (request(PTRACE_GETREGS, tid, nullptr, &regs.raw) == Alive::gone) return std::nullopt;
  return regs;
}

Alive set_registers(pid_t tid, const arch::Regs& regs) {
  return request(PTRACE_SETREGS, tid, nullptr, const_cast<user_regs_struct*>(&regs.raw));
}

Alive set_pc(pid_t tid, VirtAddr pc) {
  return request(PTRACE_POKEUSER, tid, reinterpret_cast<void*>(offsetof(user, regs.rip)),
                 as_pointer(pc.value));
}

Alive resume(pid_t tid, int signal) {
  return run_on(PTRACE_CONT, tid, signal);
}

Alive resume_to_syscall(pid_t tid, int signal) {
  return run_on(PTRACE_SYSCALL, tid, signal);
}
Alive step(pid_t tid, int signal) {
  return run_on(PTRACE_SINGLESTEP, tid, signal);
}

Alive leave_syscall(pid_t tid) {
  if (resume_to_syscall(tid) == Alive::gone) return Alive::gone;
  const auto event = consume(tid, Block::yes);
  const bool at_end = event && std::holds_alternative<SyscallStop>(classify(event->status));
  return at_end ? Alive::yes : Alive::gone;
}

Alive listen(pid_t tid) {
  return run_on(PTRACE_LISTEN, tid, 0);
}

Alive detach(pid_t tid, int signal) {
  return run_on(PTRACE_DETACH, tid, signal);
}

std::optional<unsigned long> event_message(pid_t tid) {
  unsigned long message = 0;
  if (request(PTRACE_GETEVENTMSG, tid, nullptr, &message) == Alive::gone) return std::nullopt;
  return message;
}

std::optional<siginfo_t> signal_info(pid_t tid) {
  siginfo_t info{};
  if (ptrace(PTRACE_GETSIGINFO, tid, nullptr, &info) != 0) return std::nullopt;
  return info;
}

Alive set_signal_info(pid_t tid, siginfo_t info) {
  return request(PTRACE_SETSIGINFO, tid, nullptr, &info);
}

std::optional<uint64_t> signal_mask(pid_t tid) {
  uint64_t mask = 0;
  if (request(PTRACE_GETSIGMASK, tid, as_pointer(sizeof mask), &mask) == Alive::gone) return std::nullopt;
  return mask;
}

Alive set_signal_mask(pid_t tid, uint64_t mask) {
  return request(PTRACE_SETSIGMASK, tid, as_pointer(sizeof mask), &mask);
}

std::optional<arch::VectorRegs> vector_registers(pid_t tid) {
  // As much of the XSAVE image as has ymm0-ymm15: one call, and no longer than the older one.
  std::array<std::byte, 832> state{};
  iovec area{state.data(), state.size()};
  if (ptrace(PTRACE_GETREGSET, tid, as_pointer(NT_X86_XSTATE), &area) == 0)
    return arch::VectorRegs::from(std::span<const std::byte>(state).first(area.iov_len));
  user_fpregs_struct image{};
  if (request(PTRACE_GETFPREGS, tid, nullptr, &image) == Alive::gone) return std::nullopt;
  return arch::VectorRegs::from(image);
}

std::optional<std::vector<std::byte>> extended_state(pid_t tid) {
  std::byte state[kUsualState];  // the kernel fills in as much as there is
  iovec area{state, sizeof state};
  if (ptrace(PTRACE_GETREGSET, tid, as_pointer(NT_X86_XSTATE), &area) != 0) return std::nullopt;
  if (area.iov_len < sizeof state) return std::vector<std::byte>(state, state + area.iov_len);
  std::vector<std::byte> large(kExtendedStateLimit);
  area = {large.data(), large.size()};
  if (ptrace(PTRACE_GETREGSET, tid, as_pointer(NT_X86_XSTATE), &area) != 0) return std::nullopt;
  large.resize(area.iov_len);
  return large;
}

PeekAnswer peek_any(Block block) {
  PeekAnswer answer;
  answer.event = wait_for(P_ALL, 0, WNOWAIT | flag(block), &answer.no_children);
  return answer;
}

std::optional<WaitEvent> peek(pid_t tid) {
  return wait_for(P_PID, tid, WNOWAIT | WNOHANG);
}
// A signal of ours (the front end's request, its alarm) ends only the wait for anything: here somebody is
// owed the stop.
std::optional<WaitEvent> consume(pid_t tid, Block block) {
  for (;;) {
    errno = 0;
    auto event = wait_for(P_PID, tid, flag(block));
    if (event || errno != EINTR) return event;
  }
}

bool may_run_elsewhere() {
  cpu_set_t allowed;
  return sched_getaffinity(0, sizeof allowed, &allowed) == 0 && CPU_COUNT(&allowed) > 1;
}

namespace {

std::optional<WaitEvent> consume_unless_signal(pid_t tid) {
  const auto event = peek(tid);
  if (!event) return std::nullopt;
  const Stop stop = classify(event->status);
  const bool signal = std::holds_alternative<SignalDelivery>(stop) || std::holds_alternative<Trap>(stop);
  return signal ? event : consume(tid, Block::no);
}

std::optional<WaitEvent> consume_unless_exec(pid_t tid) {
  const auto event = peek(tid);
  if (!event || std::holds_alternative<Exec>(classify(event->status))) return event;
  return consume(tid, Block::no);
}

std::optional<WaitEvent> consume_now(pid_t tid) {
  return consume(tid, Block::no);
}

template <typename Take>
std::optional<WaitEvent> take_awake(pid_t tid, Take take) {
  const auto end = std::chrono::steady_clock::now() + kAwake;
  do {
    if (auto event = take(tid)) return event;
  } while (std::chrono::steady_clock::now() < end);
  return std::nullopt;
}

// The end of a first thread is not told before that of all others, which an exec makes wait for us.
bool has_ended_untold(pid_t tid) {
  const auto status = read_status(tid);
  return status && status->state == 'Z';
}

template <typename Take>
std::optional<WaitEvent> take_within(pid_t tid, unsigned milliseconds, Take take) {
  using std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kLook(5);
  const auto end = steady_clock::now() + std::chrono::milliseconds(milliseconds);
  auto look = steady_clock::now() + kLook;
  ChildSignal stops;
  for (;;) {
    if (auto event = take(tid)) return event;
    const auto now = steady_clock::now();
    if (now > end || (now > look && has_ended_untold(tid))) return std::nullopt;
    if (now > look) look = now + kLook;
    stops.wait();
  }
}

}  // namespace

std::optional<WaitEvent> call_stop_awake(pid_t tid) {
  return take_awake(tid, consume_unless_exec);
}

std::optional<WaitEvent> call_stop_within(pid_t tid, unsigned milliseconds) {
  return take_within(tid, milliseconds, consume_unless_exec);
}

std::optional<WaitEvent> consume_within(pid_t tid, unsigned milliseconds) {
  return take_within(tid, milliseconds, consume_now);
}

void set_trap_flag(pid_t tid, bool on) {
  constexpr unsigned long long kTrapFlag = 0x100;
  auto regs = registers(tid);
  if (!regs || ((regs->raw.eflags & kTrapFlag) != 0) == on) return;
  regs->raw.eflags ^= kTrapFlag;
  (void)set_registers(tid, *regs);
}

bool end_stepping(pid_t tid) {
  constexpr unsigned kSoon = 2000;  // ms: it only has to get a processor
  if (interrupt(tid) == Alive::gone || resume(tid) == Alive::gone) return false;
  const auto event = consume_within(tid, kSoon);
  return event && !event->status.is_end();
}

std::optional<WaitEvent> stop_awake(pid_t tid) {
  return take_awake(tid, consume_unless_signal);
}

std::optional<WaitEvent> stop_now(pid_t tid) {
  return consume_unless_signal(tid);
}

std::optional<WaitEvent> stop_within(pid_t tid, unsigned milliseconds) {
  return take_within(tid, milliseconds, consume_unless_signal);
}

int stop_in_signal_path(pid_t tid) {
  constexpr unsigned kPatience = 1000;  // ms, for a stop that is pending already
  if (interrupt(tid) == Alive::gone || resume(tid) == Alive::gone) return 0;
  const auto event = stop_within(tid, kPatience);
  if (!event) return 0;
  const Stop stop = classify(event->status);
  if (std::holds_alternative<Trap>(stop)) return SIGTRAP;
  const auto* delivery = std::get_if<SignalDelivery>(&stop);
  return delivery != nullptr ? delivery->signal : 0;
}

}  // namespace rtrace::tracee
