#include "sigtrap.h"

#include <sys/syscall.h>

#include <csignal>
#include <cstring>

#include "rtrace/base/log.h"
#include "rtrace/tracee/proc_fs.h"
#include "rtrace/tracee/remote_call.h"
#include "rtrace/tracee/thread.h"

namespace rtrace::session {
namespace {

constexpr uint64_t kTrapBit = tracee::signal_bit(SIGTRAP);
// SIGKILL and SIGSTOP can never be blocked; the C library keeps 32 and 33 for itself and leaves them out of
// what it blocks.
constexpr uint64_t kUnblockable = tracee::signal_bit(SIGKILL) | tracee::signal_bit(SIGSTOP) |
                                  tracee::signal_bit(32) | tracee::signal_bit(33);
constexpr uint64_t kMaskSize = 8;  // sigsetsize of the rt_ system calls

TrapDisposition::Kind kind_of(uint64_t handler) {
  if (handler == reinterpret_cast<uint64_t>(SIG_DFL)) return TrapDisposition::Kind::standard;
  if (handler == reinterpret_cast<uint64_t>(SIG_IGN)) return TrapDisposition::Kind::ignored;
  return TrapDisposition::Kind::caught;
}

}  // namespace

void learn_trap_action(pid_t tid, TrapDisposition& disposition, mech::AddressSpace& space) {
  tracee::RemoteCall remote(tid, space.memory(), space.foothold().gadget(), space.foothold().frame_area());
  const auto where = remote.scratch(sizeof(KernelAction));
  if (!where || remote.call(SYS_rt_sigaction, {SIGTRAP, 0, where->value, kMaskSize}) != 0) return;
  const auto action = space.memory().read_value<KernelAction>(*where);
  if (!action) return;
  disposition.action = *action;
  disposition.action_known = kind_of((*action)[0]) == TrapDisposition::Kind::caught;
}

namespace {

void set_action(pid_t tid, const KernelAction& action, mech::AddressSpace& space) {
  tracee::RemoteCall remote(tid, space.memory(), space.foothold().gadget(), space.foothold().frame_area());
  const auto where = remote.scratch(sizeof action);
  if (!where || space.memory().write(*where, std::as_bytes(std::span(action))) != 0) return;
  const auto answer = remote.call(SYS_rt_sigaction, {SIGTRAP, where->value, 0, kMaskSize});
  RTRACE_LOG(session, 2, "SIGTRAP's disposition of {} put back: {}", tid, answer.value_or(-1));
}

}  // namespace

const std::vector<SignalCall>& signal_calls() {
  using Kind = SignalCall::Kind;
  static const std::vector<SignalCall> kCalls = {
      {"sigaction", Kind::sigaction}, {"signal", Kind::signal},    {"sysv_signal", Kind::signal},
      {"sigset", Kind::signal},       {"sigignore", Kind::ignore}, {"pthread_sigmask", Kind::mask},
      {"sigprocmask", Kind::mask},
  };
  return kCalls;
}

TrapDisposition trap_disposition_in(const tracee::StatusFields& status) {
  TrapDisposition disposition;
  if ((status.ignored & kTrapBit) != 0) disposition.kind = TrapDisposition::Kind::ignored;
  if ((status.caught & kTrapBit) != 0) disposition.kind = TrapDisposition::Kind::caught;
  return disposition;
}

TrapDisposition read_trap_disposition(pid_t pid) {
  return trap_disposition_in(tracee::read_status(pid).value_or(tracee::StatusFields{}));
}

bool resets_itself(const TrapDisposition& disposition) {
  constexpr size_t kFlags = 1;
  return (disposition.action[kFlags] & uint64_t{SA_RESETHAND}) != 0;
}

TrapBlocked trap_blocked_in(uint64_t mask) {
  if ((mask & kTrapBit) == 0) return TrapBlocked::no;
  return (mask | kUnblockable) == ~uint64_t{0} ? TrapBlocked::with_all : TrapBlocked::yes;
}

TrapBlocked trap_blocked_now(uint64_t mask, TrapBlocked before) {
  const bool kept = before == TrapBlocked::kept_open && (mask & kTrapBit) == 0 &&
                    trap_blocked_in(mask | kTrapBit) == TrapBlocked::with_all;
  return kept ? before : trap_blocked_in(mask);
}

void close_trap(pid_t tid) {
  const auto mask = tracee::signal_mask(tid);
  if (mask && trap_blocked_now(*mask, TrapBlocked::kept_open) == TrapBlocked::kept_open)
    (void)tracee::set_signal_mask(tid, *mask | kTrapBit);
}

bool catches_trap(pid_t tid) {
  const auto status = tracee::read_status(tid);
  return status && (status->caught & kTrapBit) != 0;
}

TrapBlocked read_trap_blocked(pid_t tid) {
  const auto status = tracee::read_status(tid);
  return status ? trap_blocked_in(status->blocked) : TrapBlocked::no;
}

void observe_signal_call(SignalCall::Kind kind, const arch::Regs& regs, const Memory& memory,
                         TrapDisposition& disposition, TrapBlocked& blocked) {
  const uint64_t first = regs.integer_argument(0);
  const uint64_t second = regs.integer_argument(1);
  if (kind == SignalCall::Kind::mask) {
    const auto set = second == 0 ? std::nullopt : memory.read_value<uint64_t>(VirtAddr{second});
    if (!set) return;
    const TrapBlocked named = trap_blocked_in(*set);
    if (static_cast<int>(first) == SIG_SETMASK) blocked = named;
    if (named == TrapBlocked::no) return;
    if (static_cast<int>(first) == SIG_BLOCK) blocked = named;
    if (static_cast<int>(first) == SIG_UNBLOCK) blocked = TrapBlocked::no;
    return;
  }
  if (static_cast<int>(first) != SIGTRAP) return;
  uint64_t handler = second;
  if (kind == SignalCall::Kind::ignore) handler = reinterpret_cast<uint64_t>(SIG_IGN);
  if (kind == SignalCall::Kind::sigaction) {
    // The handler comes first in the C library's struct sigaction too.
    const auto given = second == 0 ? std::nullopt : memory.read_value<uint64_t>(VirtAddr{second});
    if (!given) return;
    handler = *given;
  }
  disposition = {kind_of(handler), false, {}};
}

// Returns 0: success, and SIG_DFL of signal().
static std::optional<CarriedOut> returned(arch::Regs regs, const tracee::ProcessMemory& memory,
                                          std::optional<uint64_t> mask) {
  const auto to = memory.read_value<uint64_t>(regs.sp());
  if (!to) return std::nullopt;
  regs.raw.rax = 0;
  regs.raw.rip = *to;
  regs.raw.rsp += sizeof *to;
  return CarriedOut{regs, mask};
}

std::optional<CarriedOut> block_without_trap(pid_t tid, const arch::Regs& regs,
                                             const tracee::ProcessMemory& memory, TrapBlocked& blocked) {
  const VirtAddr set{regs.integer_argument(1)}, old{regs.integer_argument(2)};
  const bool keeps_open = blocked == TrapBlocked::kept_open;
  if (blocked == TrapBlocked::yes || (!set && !keeps_open)) return std::nullopt;
  const auto mask = tracee::signal_mask(tid);
  const auto given = set ? memory.read_value<uint64_t>(set) : uint64_t{0};
  if (!mask || !given) return std::nullopt;
  const uint64_t before =
      keeps_open && trap_blocked_in(*mask | kTrapBit) == TrapBlocked::with_all ? *mask | kTrapBit : *mask;
  const auto how = set ? static_cast<int>(regs.integer_argument(0)) : SIG_BLOCK;
  if (how != SIG_BLOCK && how != SIG_UNBLOCK && how != SIG_SETMASK) return std::nullopt;
  const uint64_t after = agent::mask_after(how, *given, before);
  if (trap_blocked_in(after) != TrapBlocked::with_all) return std::nullopt;
  auto done = returned(regs, memory, after & ~kTrapBit);
  if (!done || (old && memory.write(old, std::as_bytes(std::span(&before, 1))) != 0)) return std::nullopt;
  blocked = TrapBlocked::kept_open;
  return done;
}

std::optional<CarriedOut> ask_for_default(SignalCall::Kind kind, const arch::Regs& regs,
                                          const tracee::ProcessMemory& memory) {
  const VirtAddr second{regs.integer_argument(1)}, old{regs.integer_argument(2)};
  if (kind == SignalCall::Kind::signal && !second) return returned(regs, memory, std::nullopt);
  if (kind != SignalCall::Kind::sigaction) return std::nullopt;
  if (second && memory.read_value<uint64_t>(second) != reinterpret_cast<uint64_t>(SIG_DFL))
    return std::nullopt;
  const std::array<std::byte, agent::kActionSize> standard{};
  if (old && memory.write(old, standard) != 0) return std::nullopt;
  return returned(regs, memory, std::nullopt);
}

void restore_trap_state(pid_t tid, TrapDisposition& disposition, TrapBlocked& blocked, Look look,
                        mech::AddressSpace& space, const NeedStopped& need_stopped) {
  std::optional<uint64_t> mask;
  if (blocked != TrapBlocked::no || look == Look::yes) mask = tracee::signal_mask(tid);
  // Threads block all signals for a moment and unblock them by raw system calls (pthread_create): only the
  // mask at the hit tells.
  if (is_with_all(blocked) && mask && trap_blocked_in(*mask | kTrapBit) != TrapBlocked::with_all)
    blocked = TrapBlocked::no;
  if (blocked == TrapBlocked::no && mask && trap_blocked_in(*mask | kTrapBit) == TrapBlocked::with_all)
    blocked = TrapBlocked::with_all;
  const bool ignored = disposition.kind == TrapDisposition::Kind::ignored;
  const bool caught = disposition.kind == TrapDisposition::Kind::caught;
  // An int3 that meets SIGTRAP blocked takes its handler away (kernel/signal.c, force_sig_info_to_task).
  // Where one stands behind it the signal was not blocked any more: a handler that it was blocked for has
  // returned, by rt_sigreturn, unseen.
  if (caught && blocked == TrapBlocked::yes && catches_trap(tid)) blocked = TrapBlocked::no;
  const bool was_blocked = blocked == TrapBlocked::yes || blocked == TrapBlocked::with_all;
  const bool taken_away = ignored || (caught && was_blocked);
  // What was not taken away can be asked for, against the day when it is.
  const bool ask = caught && !was_blocked && !disposition.action_known;
  if ((taken_away || ask) && space.foothold().exists() && need_stopped()) {
    if (ask) learn_trap_action(tid, disposition, space);
    if (ignored) set_action(tid, {reinterpret_cast<uint64_t>(SIG_IGN), 0, 0, 0}, space);
    if (caught && was_blocked && disposition.action_known) set_action(tid, disposition.action, space);
  }
  // The hit has unblocked it.
  if (blocked == TrapBlocked::yes && mask) (void)tracee::set_signal_mask(tid, *mask | kTrapBit);
}

}  // namespace rtrace::session
