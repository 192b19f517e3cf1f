// What the program does with SIGTRAP itself: it must find its own state, while the bridging handler stands.
#include <sys/syscall.h>

#include <csignal>

#include "engine_core.h"
#include "rtrace/tracee/proc_fs.h"
#include "rtrace/tracee/thread.h"

namespace rtrace::session {

// Whether a call of pthread_sigmask() is made in a thread that blocks all signals, or is to.
static bool blocks_all(const Task& task, const SignalArguments& call, const Memory& memory) {
  const bool blocks = call.second && static_cast<int>(call.first) != SIG_UNBLOCK;
  const auto set = blocks ? memory.read_value<uint64_t>(call.second) : std::nullopt;
  return is_with_all(task.trap_blocked) || (set && is_with_all(trap_blocked_in(*set)));
}

// What a watched call comes to, where it need not be made for that. Where system calls are shown, that of a
// mask is shown too; that of an action takes a struct of another layout, and so is made.
std::optional<CarriedOut> Engine::carry_out(Task& task, const Image& image, const mech::BreakpointSite& site,
                                            const arch::Regs& regs) {
  constexpr uint64_t kMaskSize = 8;
  const bool shown = shows_syscalls(task);
  if (!image.may_carry_out(site) || (shown && !agent::is_about_mask(site.signal_call))) return std::nullopt;
  if (shown)
    syscalls_.observe_carried_out(
        task, SYS_rt_sigprocmask,
        {regs.integer_argument(0), regs.integer_argument(1), regs.integer_argument(2), kMaskSize}, regs);
  auto done = carry_out_function(task.id.tid, site.signal_call, regs, task.process->image->space().memory(),
                                 task.trap_blocked);
  if (shown && done) syscalls_.carried_out(task, regs);
  if (shown && !done) syscalls_.taken_back(task);
  return done;
}

// A thread is about to ask for, or change, signal state: it must find its own. What we carried out in its
// place, so that SIGTRAP stays open and the handler stands. Where the call is to be made all the same,
// because it is somebody else's function or shown, that is done at the system call.
std::optional<CarriedOut> Engine::at_signal_call(Task& task, Image& image, const mech::BreakpointSite& site,
                                                 const arch::Regs& regs, const NeedStopped& need_stopped) {
  constexpr unsigned kSoon = 16;
  const SignalCall::Kind kind = site.signal_call;
  const tracee::ProcessMemory& memory = image.space().memory();
  const SignalArguments call = {regs.integer_argument(0), VirtAddr{regs.integer_argument(1)}, {}, true};
  const bool about_mask = agent::is_about_mask(kind);
  const bool about_trap = !about_mask && static_cast<int>(call.first) == SIGTRAP;
  if (is_about_open_handler(task, image, kind, regs)) task.awaits_signal_call = kSoon;
  if (kind == SignalCall::Kind::none || (!about_mask && !about_trap)) return std::nullopt;
  // The child of posix_spawn() sets the default for all that it finds blocked.
  const bool guest = image.pid() != task.process->pid;
  const bool asks_as_guest = about_mask && guest && !call.second;
  if (asks_as_guest || image.leads_to_watch(site)) return std::nullopt;
  const bool kept = about_mask ? blocks_all(task, call, memory) : leaves_default(kind, call, memory);
  if (kept && is_bridged(task)) {
    auto done = carry_out(task, image, site, regs);
    task.awaits_signal_call = done ? 0 : kSoon;
    return done;
  }
  Survival& survival = image.survival();
  const bool ours = about_trap && !guest;
  const bool known = survival.screens() || !is_being_set(*task.process);
  const bool asks = kind == SignalCall::Kind::sigaction && known && !shows_syscalls(task);
  if (ours && asks && image.may_carry_out(site))
    if (auto done = answer_for_own(regs, memory, task.process->trap)) return done;
  if (ours && (survival.leaves_a_trace() || survival.screens()))
    if (const auto stopped = need_stopped()) (void)survival.lower(*stopped, image.space());
  const bool withheld = task.process->trap.withheld;
  observe_signal_call(kind, regs, memory, task.process->trap, task.trap_blocked);
  const TrapDisposition::Kind kind_now = task.process->trap.kind;
  if (ours && kind_now == TrapDisposition::Kind::ignored && survival.risk().empty())
    reporter_.notice_once(task.process->name, risk_of_own_action(task.process->pid, task.process->name));
  if (ours) survival.program_set(kind_now, image.space());
  // Before a hit can take it away: the C library's own system call says all of it.
  // signal() makes a sigaction() of it, before which this very hit may have had it withheld.
  if (task.awaits_signal_call == 0) task.finds_ignored = ours && withheld;
  if (ours && (withheld || task.process->trap.kind != TrapDisposition::Kind::standard))
    task.awaits_signal_call = kSoon;
  return std::nullopt;
}

// A thread at the entry of a system call that may be awaited.
void Engine::at_signal_system_call(Task& task, const arch::Regs& regs, bool awaited) {
  const tracee::ProcessMemory& memory = task.process->image->space().memory();
  TrapDisposition& trap = task.process->trap;
  if (awaited) at_handler_call(task, regs, tracee::SyscallInfo::Moment::entry);
  if (trap.kind != TrapDisposition::Kind::standard && !trap.action_known) {
    TrapDisposition next = trap;
    if (learn_from_system_call(regs, memory, next)) task.sets_trap = next;
  }
  if (awaited && trap.kind == TrapDisposition::Kind::ignored && has_others(task))
    trap.withheld |= withhold_ignoring(regs, memory);
  if (!is_bridged(task)) return;
  const auto done = carry_out_system_call(task.id.tid, regs, memory, task.trap_blocked);
  if (!done) return;
  task.awaits_signal_call = 0;
  open_mask(task.id.tid, done);
  (void)tracee::set_registers(task.id.tid, done->regs);
  settle_signals(task, false, done);
}

// At the end of such a call. Until then others' hits find what stood before it, which is not to be put back.
void Engine::trap_action_is_set(Task& task, const arch::Regs& regs) {
  const auto next = std::exchange(task.sets_trap, std::nullopt);
  TrapDisposition& trap = task.process->trap;
  if (!next || regs.raw.rax != 0 || trap.kind == TrapDisposition::Kind::standard || trap.action_known) return;
  if (next->kind == TrapDisposition::Kind::ignored && trap.kind == next->kind) trap.action = next->action;
  if (trap.kind != TrapDisposition::Kind::caught) return;
  trap = *next;
  mech::AddressSpace& space = task.process->image->space();
  // A hit that met it blocked may have taken it away already.
  if (trap.action_known && space.foothold().exists() && !catches_trap(task.id.tid))
    (void)put_back_handler(task.id.tid, trap, space);
}

// Before the hit's commit: what would be lost with us behind it, a section's end above all. The SIGTRAP of
// the hit, that is still the kernel's, stays deliverable.
void Engine::open_mask(pid_t tid, const std::optional<CarriedOut>& done) {
  if (done && done->mask && done->repeatable)
    (void)tracee::set_signal_mask(tid, *done->mask & ~tracee::signal_bit(SIGTRAP));
}

// Behind it.
void Engine::settle_signals(const Task& task, bool taken, const std::optional<CarriedOut>& done) {
  const pid_t tid = task.id.tid;
  if (taken) (void)tgkill(task.process->pid, tid, SIGTRAP);
  if (!done || !done->mask) return;
  const bool blocks_trap = (*done->mask & tracee::signal_bit(SIGTRAP)) != 0;
  Image* image = task.process->image.get();
  if (blocks_trap && image != nullptr && is_caught(task, *image)) {  // or our death would leave one pending
    (void)tracee::consume(tid, tracee::Block::no);
    queue_.forget(tid);
  }
  if (blocks_trap || !done->repeatable) (void)tracee::set_signal_mask(tid, *done->mask);
}

// Sent by somebody, and ignored by the program. What an instruction of its own raises ends it all the same.
bool Engine::is_dropped(const Task& task, int signal) {
  return signal == SIGTRAP && task.process->trap.withheld && taken_for_hit(task.id.tid) &&
         !catches_trap(task.id.tid);
}

// Somebody has sent SIGTRAP to a thread that is to have it blocked, and has it open for our sake: it waits.
// True where the thread is to be resumed with it, at which the kernel finds it blocked (kernel/signal.c,
// ptrace_signal), and keeps all that is told of it.
bool Engine::keep_pending(Task& task) {
  const pid_t tid = task.id.tid;
  const auto mask = tracee::signal_mask(tid);
  const auto info = tracee::signal_info(tid);
  if ((!is_with_all(task.trap_blocked) && !is_in_open_handler(task)) || !mask || !info || info->si_code > 0 ||
      trap_blocked_now(*mask, TrapBlocked::kept_open) != TrapBlocked::kept_open)
    return false;
  close_trap(tid);
  task.trap_blocked = TrapBlocked::with_all;
  let_kernel_restart(tid);
  return true;
}

// Whether our handler in front of the program's own would take it for one that is not ours.
static bool gets_through(const Task& task, Image& image, const arch::Regs& regs) {
  const auto info = image.survival().screens() ? tracee::signal_info(task.id.tid) : std::nullopt;
  if (!info || (info->si_code == SI_USER && info->si_pid == 0)) return false;
  return info->si_code != SI_KERNEL || image.space().find(regs.pc()) == nullptr;
}

static void as_it_was_sent(Task& task, const arch::Regs& regs) {
  const auto before = std::exchange(task.sent_anew, std::nullopt);
  const auto now = before && before->pc == regs.pc() ? tracee::signal_info(task.id.tid) : std::nullopt;
  if (now && now->si_code == SI_KERNEL) (void)tracee::set_signal_info(task.id.tid, before->info);
}

// A SIGTRAP that is not ours meets the program's own action, not our handler. It comes once more,
// for it is sent anew behind the remote call. True where the thread has been resumed so.
bool Engine::step_aside(Task& task, const arch::Regs& regs) {
  as_it_was_sent(task, regs);
  Image* image = task.process->image.get();
  if (image == nullptr || task.process->silent) return false;
  if (keep_pending(task)) {
    go_on(task, SIGTRAP);
    return true;
  }
  // Another thread's hit has taken the program's handler away, and is still to be seen.
  TrapDisposition& trap = task.process->trap;
  const bool gone = trap.kind == TrapDisposition::Kind::caught && trap.action_known &&
                    image->space().foothold().exists() && !catches_trap(task.id.tid);
  const bool borrows = image->pid() != task.process->pid;
  if (!gone && (!is_caught(task, *image) || gets_through(task, *image, regs))) return false;
  const auto info = tracee::signal_info(task.id.tid);
  const auto stopped = stop_here(task, regs)();
  if (!stopped || !info) return false;
  task.sent_anew = {*info, regs.pc()};
  if (gone && !put_back_handler(*stopped, trap, image->space())) return false;
  if (!gone && borrows)
    (void)Survival::lower_in_borrower(*stopped, image->space());
  else if (!borrows && is_caught(task, *image) && !gets_through(task, *image, regs))
    (void)image->survival().lower(*stopped, image->space());
  runs_on(task);
  (void)tracee::resume(task.id.tid, SIGTRAP);
  return true;
}

// A SIGTRAP of the program's own, to a thread that is about to be resumed with it. Another thread that meets
// an int3 while it blocks SIGTRAP would take the program's handler away (kernel/signal.c,
// force_sig_info_to_task) before the kernel has called it: so none runs until it has. False where that need
// not be, or cannot.
bool Engine::hand_over_alone(Task& task) {
  constexpr unsigned kStopWait = 1000;  // ms: it only has to get a processor
  const pid_t tid = task.id.tid, pid = task.process->pid;
  const std::shared_ptr<Image> image = task.process->image;
  const TrapDisposition& trap = task.process->trap;
  if (image == nullptr || image->pid() != pid || trap.kind != TrapDisposition::Kind::caught ||
      !trap.action_known || !image->space().foothold().exists() || !has_others(task))
    return false;
  hands_over_ = true;
  const auto others = halt_others(pid, tid, Sleepers::stay);
  hands_over_ = false;
  if (!others) return false;
  const auto is_fit = [](const Halted& one) {
    const auto regs = tracee::registers(one.tid);
    return regs && one.how == Halted::How::ready && !regs->never_in_program();
  };
  const auto caller = std::ranges::find_if(*others, is_fit);
  const bool gone = !catches_trap(tid);
  if (gone && caller != others->end())
    (void)put_back_handler(caller->tid, task.process->trap, image->space());
  if (gone && caller == others->end()) {
    let_halted_run(*others);
    const auto regs = tracee::registers(tid);
    return regs && step_aside(task, *regs);
  }
  task.interrupted = true;
  runs_on(task);
  (void)tracee::interrupt(tid);  // it stops again behind the delivery
  (void)tracee::resume(tid, SIGTRAP);
  const auto event = stop_of(tid, kStopWait);
  const bool delivered =
      event && std::holds_alternative<tracee::Interrupted>(tracee::classify(event->status));
  if (delivered) handle(*event);
  let_halted_run(*others);
  if (event && !delivered) handle(*event);
  return true;
}

}  // namespace rtrace::session
