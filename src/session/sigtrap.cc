#include "sigtrap.h"

#include <sys/syscall.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include "rtrace/base/log.h"
#include "rtrace/tracee/proc_fs.h"
#include "rtrace/tracee/remote_call.h"
#include "rtrace/tracee/thread.h"

namespace rtrace::session {
namespace {

constexpr uint64_t kTrapBit = tracee::signal_bit(SIGTRAP);
constexpr uint64_t kMaskSize = 8;  // sigsetsize of the rt_ system calls

TrapDisposition::Kind kind_of(uint64_t handler) {
  if (handler == reinterpret_cast<uint64_t>(SIG_DFL)) return TrapDisposition::Kind::standard;
  if (handler == reinterpret_cast<uint64_t>(SIG_IGN)) return TrapDisposition::Kind::ignored;
  return TrapDisposition::Kind::caught;
}

using OwnHandler = agent::Blob::OwnHandler;

// What the program has set where our handler stands in front of its own, or the kernel has taken it away.
void show_own(KernelAction& action, const mech::AddressSpace& space) {
  const bool ours = action[0] == space.foothold().screen().value;
  if (!space.handler_screens() || (!ours && kind_of(action[0]) != TrapDisposition::Kind::standard)) return;
  const auto own = space.memory().read_value<OwnHandler>(space.foothold().own_handler());
  if (own && ours) action[0] = own->address;
  if (own) action[1] = own->flags;
}

// As the kernel has it: with nothing in its mask that cannot be blocked (kernel/signal.c, do_sigaction), and
// with flags of 32 bits, of which C libraries make 64 by their sign (SA_RESETHAND); before 5.11 it had those.
KernelAction as_kept(KernelAction action) {
  action[1] &= UINT32_MAX;
  action[3] &= ~(tracee::signal_bit(SIGKILL) | tracee::signal_bit(SIGSTOP));
  return action;
}

}  // namespace

void learn_trap_action(pid_t tid, TrapDisposition& disposition, mech::AddressSpace& space) {
  tracee::RemoteCall remote(tid, space.memory(), space.foothold().gadget(), space.foothold().frame_area());
  const auto where = remote.scratch(sizeof(KernelAction));
  if (!where || remote.call(SYS_rt_sigaction, {SIGTRAP, 0, where->value, kMaskSize}) != 0) return;
  auto action = space.memory().read_value<KernelAction>(*where);
  if (!action) return;
  show_own(*action, space);
  disposition.action = as_kept(*action);
  disposition.action_known = kind_of((*action)[0]) == TrapDisposition::Kind::caught;
}

namespace {

// Where our handler stands in front of that one, it does so again.
KernelAction behind_ours(KernelAction action, const mech::AddressSpace& space) {
  const mech::Foothold& foothold = space.foothold();
  const auto own = space.memory().read_value<OwnHandler>(foothold.own_handler());
  if (!space.handler_screens() || !own || own->address != action[0] || own->flags != action[1]) return action;
  action[0] = foothold.screen().value;
  action[1] |= SA_SIGINFO;
  return action;
}

void set_action(pid_t tid, const KernelAction& own, mech::AddressSpace& space) {
  const KernelAction action = behind_ours(own, space);
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

bool changes_masks(std::string_view name) {
  return std::ranges::any_of(signal_calls(), [&](const SignalCall& call) {
    return call.kind == SignalCall::Kind::mask && call.name == name;
  });
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
  return agent::blocks_all(mask) ? TrapBlocked::with_all : TrapBlocked::yes;
}

TrapBlocked trap_blocked_now(uint64_t mask, TrapBlocked before) {
  const bool kept = before == TrapBlocked::kept_open && (mask & kTrapBit) == 0 &&
                    trap_blocked_in(mask | kTrapBit) == TrapBlocked::with_all;
  const TrapBlocked now = trap_blocked_in(mask);
  if (kept || (now == TrapBlocked::yes && is_blocked_alone(before))) return before;
  return now == TrapBlocked::yes ? TrapBlocked::found : now;
}

bool taken_for_hit(pid_t tid) {
  const auto info = tracee::signal_info(tid);
  return info && info->si_code <= 0;
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
  return status ? trap_blocked_now(status->blocked, TrapBlocked::no) : TrapBlocked::no;
}

void observe_signal_call(SignalCall::Kind kind, const arch::Regs& regs, const Memory& memory,
                         TrapDisposition& disposition, TrapBlocked& blocked) {
  const uint64_t first = regs.integer_argument(0);
  const uint64_t second = regs.integer_argument(1);
  if (agent::is_about_mask(kind)) {
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

// Where a call of the program's would change the mask, and SIGTRAP stays open, or is open where the program
// has it blocked: writes the mask that it finds, and answers the one that it gets.
static std::optional<uint64_t> change_mask(pid_t tid, const SignalArguments& call,
                                           const tracee::ProcessMemory& memory, TrapBlocked& blocked) {
  const auto mask = tracee::signal_mask(tid);
  const auto how = static_cast<int>(call.first);
  const auto set = call.second ? memory.read_value<uint64_t>(call.second) : uint64_t{0};
  if (!mask || !set || how < SIG_BLOCK || how > SIG_SETMASK) return std::nullopt;
  const bool kept = is_with_all(blocked) && trap_blocked_in(*mask | kTrapBit) == TrapBlocked::with_all;
  const uint64_t before = kept ? *mask | kTrapBit : *mask;
  const uint64_t given = call.by_library ? agent::set_for_kernel(how, *set) : *set;
  const uint64_t after = call.second ? agent::mask_after(how, given, before) : before;
  const TrapBlocked next = trap_blocked_in(after);
  if (next != TrapBlocked::with_all && before == *mask) return std::nullopt;
  if (call.third && memory.write_value(call.third, before) != 0) return std::nullopt;
  blocked = next == TrapBlocked::with_all ? TrapBlocked::kept_open : next;
  return next == TrapBlocked::with_all ? after & ~kTrapBit : after;
}

bool leaves_default(SignalCall::Kind kind, const SignalArguments& call, const Memory& memory) {
  if (kind == SignalCall::Kind::signal) return !call.second;
  if (kind != SignalCall::Kind::sigaction) return false;
  return !call.second || memory.read_value<uint64_t>(call.second) == reinterpret_cast<uint64_t>(SIG_DFL);
}

std::optional<CarriedOut> carry_out_function(pid_t tid, SignalCall::Kind kind, arch::Regs regs,
                                             const tracee::ProcessMemory& memory, TrapBlocked& blocked) {
  const unsigned length = agent::length_in_line(kind);
  const auto to = length == 0 ? memory.read_value<uint64_t>(regs.sp()) : regs.pc().value + length;
  const bool by_library = kind != SignalCall::Kind::mask_syscall;
  const SignalArguments call = {regs.integer_argument(0), VirtAddr{regs.integer_argument(1)},
                                VirtAddr{regs.integer_argument(2)}, by_library};
  if (!to || (!by_library && (regs.raw.rax != SYS_rt_sigprocmask || regs.raw.r10 != kMaskSize)))
    return std::nullopt;
  CarriedOut done;
  if (agent::is_about_mask(kind)) {
    done.mask = change_mask(tid, call, memory, blocked);
    if (!done.mask) return std::nullopt;
  } else {
    const std::array<std::byte, agent::kActionSize> standard{};
    if (kind != SignalCall::Kind::sigaction || !leaves_default(kind, call, memory)) return std::nullopt;
    if (call.third && memory.write(call.third, standard) != 0) return std::nullopt;
  }
  regs.raw.rax = 0;
  regs.raw.rip = *to;
  if (length == 0) regs.raw.rsp += sizeof *to;
  done.regs = regs;
  done.repeatable = !call.third;
  return done;
}

std::optional<CarriedOut> answer_for_own(arch::Regs regs, const tracee::ProcessMemory& memory,
                                         const TrapDisposition& disposition) {
  const auto& [handler, flags, restorer, mask] = disposition.action;
  struct sigaction told {};
  const auto to = memory.read_value<uint64_t>(regs.sp());
  const VirtAddr old{regs.integer_argument(2)};
  if (!to || regs.integer_argument(1) != 0 || !disposition.action_known) return std::nullopt;
  told.sa_handler = reinterpret_cast<void (*)(int)>(handler);
  std::memcpy(&told.sa_mask, &mask, sizeof mask);
  told.sa_flags = static_cast<int>(flags);
  told.sa_restorer = reinterpret_cast<void (*)()>(restorer);
  if (old && memory.write_value(old, told) != 0) return std::nullopt;
  regs.raw.rax = 0;
  regs.raw.rip = *to;
  regs.raw.rsp += sizeof *to;
  return CarriedOut{regs, std::nullopt, !old};
}

std::optional<CarriedOut> carry_out_system_call(pid_t tid, arch::Regs regs,
                                                const tracee::ProcessMemory& memory, TrapBlocked& blocked) {
  const SignalArguments call = {regs.syscall_argument(0), VirtAddr{regs.syscall_argument(1)},
                                VirtAddr{regs.syscall_argument(2)}, false};
  if (regs.syscall_argument(3) != kMaskSize) return std::nullopt;
  CarriedOut done;
  if (regs.raw.orig_rax == SYS_rt_sigprocmask) {
    done.mask = change_mask(tid, call, memory, blocked);
    if (!done.mask) return std::nullopt;
  } else {
    if (regs.raw.orig_rax != SYS_rt_sigaction || call.first != SIGTRAP ||
        !leaves_default(SignalCall::Kind::sigaction, call, memory))
      return std::nullopt;
    if (call.third && memory.write_value(call.third, KernelAction{}) != 0) return std::nullopt;
  }
  // The kernel makes no call then, and leaves the result as it is (arch/x86/entry/common.c, do_syscall_64).
  regs.raw.orig_rax = static_cast<uint64_t>(-1);
  regs.raw.rax = 0;
  done.regs = regs;
  done.repeatable = !call.third;
  return done;
}

bool learn_from_system_call(const arch::Regs& regs, const Memory& memory, TrapDisposition& disposition) {
  const bool sets_trap = regs.raw.orig_rax == SYS_rt_sigaction && regs.syscall_argument(0) == SIGTRAP;
  const VirtAddr given{sets_trap ? regs.syscall_argument(1) : 0};
  const auto action = given ? memory.read_value<KernelAction>(given) : std::nullopt;
  if (!action) return false;
  disposition = {kind_of((*action)[0]), false, as_kept(*action)};
  disposition.action_known = disposition.kind == TrapDisposition::Kind::caught;
  return true;
}

// Only what lies in the caller's frame is its copy, and nobody else's.
bool withhold_ignoring(const arch::Regs& regs, const tracee::ProcessMemory& memory) {
  constexpr uint64_t kFrame = 4096;
  const uint64_t given = regs.syscall_argument(1);
  if (regs.raw.orig_rax != SYS_rt_sigaction || regs.syscall_argument(0) != SIGTRAP ||
      given - regs.sp().value >= kFrame)
    return false;
  const auto handler = memory.read_value<uint64_t>(VirtAddr{given});
  return handler == reinterpret_cast<uint64_t>(SIG_IGN) &&
         memory.write_value(VirtAddr{given}, reinterpret_cast<uint64_t>(SIG_DFL)) == 0;
}

// The kernel's reset leaves the rest of the action as it was; a program that sets another, by a raw system
// call, as a rule does not.
bool put_back_handler(pid_t tid, TrapDisposition& disposition, mech::AddressSpace& space) {
  TrapDisposition now = disposition;
  learn_trap_action(tid, now, space);
  const bool same = std::equal(now.action.begin() + 1, now.action.end(), disposition.action.begin() + 1);
  if (!same || kind_of(now.action[0]) != TrapDisposition::Kind::standard) {
    disposition = {kind_of(now.action[0]), now.action_known, now.action};
    return false;
  }
  set_action(tid, disposition.action, space);
  return true;
}

// Of a thread that blocks all but SIGTRAP behind a hit: where its process's handler stands, or ours, the hit
// has not met it blocked.
static TrapBlocked trap_blocked_unseen(pid_t tid, TrapDisposition::Kind kind) {
  if (!catches_trap(tid)) return TrapBlocked::with_all;
  return kind == TrapDisposition::Kind::caught ? TrapBlocked::no : TrapBlocked::kept_open;
}

void restore_trap_state(pid_t tid, TrapDisposition& disposition, TrapBlocked& blocked, Look look, bool alone,
                        mech::AddressSpace& space, const NeedStopped& need_stopped) {
  std::optional<uint64_t> mask;
  if (blocked != TrapBlocked::no || look == Look::yes) mask = tracee::signal_mask(tid);
  // Threads block all signals for a moment and unblock them by raw system calls (pthread_create): only the
  // mask at the hit tells.
  if (is_with_all(blocked) && mask && trap_blocked_in(*mask | kTrapBit) != TrapBlocked::with_all)
    blocked = TrapBlocked::no;
  const bool ignored = disposition.kind == TrapDisposition::Kind::ignored;
  const bool caught = disposition.kind == TrapDisposition::Kind::caught;
  // Where our handler stands behind the hit, that has not met it blocked: in a handler that we have opened.
  if (!is_with_all(blocked) && mask && trap_blocked_in(*mask | kTrapBit) == TrapBlocked::with_all)
    blocked = trap_blocked_unseen(tid, disposition.kind);
  // An int3 that meets SIGTRAP blocked takes its handler away (kernel/signal.c, force_sig_info_to_task).
  // Where one stands behind it the signal was not blocked any more: a handler that it was blocked for has
  // returned, by rt_sigreturn, unseen. Where none does it was, by such a handler's beginning.
  const bool stands = caught && catches_trap(tid);
  if (stands && blocked == TrapBlocked::yes) blocked = TrapBlocked::no;
  const bool gone = caught && !stands && disposition.action_known;
  // What was not taken away can be asked for, against the day when it is.
  const bool ask = stands && !disposition.action_known;
  bool put_back = false;
  disposition.withheld |= ignored && !alone;
  if (((ignored && alone) || gone || ask) && space.foothold().exists() && need_stopped()) {
    if (ask) learn_trap_action(tid, disposition, space);
    if (ignored && alone) {
      KernelAction own = disposition.action;  // the kernel's reset has left the rest of it
      own[0] = reinterpret_cast<uint64_t>(SIG_IGN);
      set_action(tid, own, space);
      disposition.withheld = false;
    }
    if (gone) put_back = put_back_handler(tid, disposition, space);
  }
  // The hit has unblocked it.
  if (put_back && alone && blocked == TrapBlocked::no) mask = tracee::signal_mask(tid);
  const bool blocks = blocked == TrapBlocked::yes ||
                      (blocked == TrapBlocked::with_all && (ignored || caught)) ||
                      (put_back && alone && blocked == TrapBlocked::no);
  if (blocks && mask) (void)tracee::set_signal_mask(tid, *mask | kTrapBit);
}

}  // namespace rtrace::session
