// What the engine does so that its own death leaves no trace: the bridging handler, kept where the program
// has the default action for SIGTRAP.
#include <sys/syscall.h>

#include <algorithm>
#include <csignal>
#include <ctime>

#include "engine_core.h"
#include "rtrace/base/log.h"
#include "rtrace/base/moment.h"
#include "rtrace/tracee/opened_child.h"
#include "rtrace/tracee/proc_fs.h"
#include "rtrace/tracee/thread.h"

namespace rtrace::session {

// Other threads of its process.
bool Engine::has_others(const Task& task) const {
  return std::ranges::any_of(tasks_, [&](const auto& other) {
    return other.second->process == task.process && other.second.get() != &task;
  });
}

// A thread that blocked SIGTRAP while it was being attached to, unseen, shows by what the kernel does at its
// first hit: it resets the action (kernel/signal.c, force_sig_info_to_task). Among several threads another's
// hit may have been that.
void Engine::note_reset_at_first_hit(Task& task) const {
  const Process& process = *task.process;
  if (task.trap_blocked != TrapBlocked::no || process.silent || process.image == nullptr || has_others(task))
    return;
  const TrapDisposition& trap = process.trap;
  const bool caught = trap.kind == TrapDisposition::Kind::caught && trap.action_known && !resets_itself(trap);
  const bool bridged = trap.kind == TrapDisposition::Kind::standard && process.image->survival().stands();
  if (!caught && !bridged) return;
  const auto status = tracee::read_status(task.id.tid);
  const auto mask = tracee::signal_mask(task.id.tid);
  if (!status || !mask || (status->caught & tracee::signal_bit(SIGTRAP)) != 0) return;
  task.trap_blocked = trap_blocked_in(*mask | tracee::signal_bit(SIGTRAP));
}

void Engine::tell_of_blocking(const Process& process) {
  if (!process.image->survival().tells_of_blocking()) return;
  reporter_.notice(
      fmt::format("threads of process {} ({}) meet probes while they block SIGTRAP: SIGKILL of rtrace could "
                  "kill it then",
                  process.pid, process.name));
}

// A hit has met SIGTRAP blocked that was not looked at: this one, or another thread's.
static void note_reset(Task& task, Image& image) {
  image.survival().reset_by_kernel(image.space());
  const auto mask = tracee::signal_mask(task.id.tid);
  if (task.trap_blocked == TrapBlocked::no && mask &&
      trap_blocked_in(*mask | tracee::signal_bit(SIGTRAP)) == TrapBlocked::with_all)
    task.trap_blocked = TrapBlocked::kept_open;
}

// At each hit. Raises the handler again where the kernel has reset it.
void Engine::keep_bridge(Task& task, Image& image, const NeedStopped& need_stopped) {
  if (task.process->silent) return;  // its actions are its own
  if (image.pid() != task.process->pid) return keep_bridge_of_borrower(task, image, need_stopped);
  Survival& survival = image.survival();
  const bool kept_open = task.trap_blocked == TrapBlocked::kept_open;
  if (task.trap_blocked != TrapBlocked::no && !kept_open) {
    tell_of_blocking(*task.process);
    survival.reset_by_kernel(image.space());
    // The hit has unblocked it.
    if (task.trap_blocked == TrapBlocked::with_all &&
        task.process->trap.kind == TrapDisposition::Kind::standard)
      task.trap_blocked = TrapBlocked::kept_open;
  } else if (survival.is_to_be_looked_for(task.clock.stopped_at(), kept_open) && !catches_trap(task.id.tid)) {
    tell_of_blocking(*task.process);
    note_reset(task, image);
  }
  if (!survival.wants_raising() || task.process->trap.kind != TrapDisposition::Kind::standard) return;
  if (const auto stopped = image.space().foothold().exists() ? need_stopped() : std::nullopt)
    survival.raise(*stopped, image.space());
}

// Whether a call of pthread_sigmask() is made in a thread that blocks all signals, or is to.
static bool blocks_all(const Task& task, const SignalArguments& call, const Memory& memory) {
  const bool blocks = call.second && static_cast<int>(call.first) != SIG_UNBLOCK;
  const auto set = blocks ? memory.read_value<uint64_t>(call.second) : std::nullopt;
  return is_with_all(task.trap_blocked) || (set && is_with_all(trap_blocked_in(*set)));
}

// Whether our handler stands in the process for the default action, or will again.
bool Engine::is_bridged(const Task& task) {
  const Process& process = *task.process;
  return process.image != nullptr && process.image->survival().leaves_a_trace() &&
         process.trap.kind == TrapDisposition::Kind::standard;
}

// Whether a hit has met SIGTRAP blocked shows by our handler in a process of one thread: the kernel has taken
// it away then. What has unblocked it, or blocked it again as a handler returned, need not have been seen.
void Engine::learn_from_bridge(Task& task) const {
  const Process& process = *task.process;
  if (task.trap_blocked == TrapBlocked::no || process.trap.kind != TrapDisposition::Kind::standard ||
      process.image->pid() != process.pid || !process.image->survival().stands() || has_others(task))
    return;
  const auto mask = tracee::signal_mask(task.id.tid);
  const TrapBlocked may_be = trap_blocked_in(mask.value_or(0) | tracee::signal_bit(SIGTRAP));
  if (task.trap_blocked == TrapBlocked::yes || may_be != TrapBlocked::with_all)
    task.trap_blocked = catches_trap(task.id.tid) ? TrapBlocked::no : may_be;
}

// After a hit.
void Engine::restore_trap(Task& task, Look look, const NeedStopped& need_stopped) const {
  Process& process = *task.process;
  learn_from_bridge(task);
  const bool alone = process.trap.kind != TrapDisposition::Kind::standard && !has_others(task);
  const bool withheld = process.trap.withheld;
  restore_trap_state(task.id.tid, process.trap, task.trap_blocked, look, alone, process.image->space(),
                     need_stopped);
  if (process.trap.withheld != withheld) note_withheld(process);
}

// Whether our handler gets a SIGTRAP that is left to the kernel. A process that runs in another's memory has
// that one's handler until it sets an action itself.
bool Engine::is_caught(const Task& task, Image& image) {
  const Process& process = *task.process;
  if (!image.survival().stands()) return false;
  return image.pid() == process.pid ||
         (process.trap.kind == TrapDisposition::Kind::standard && catches_trap(task.id.tid));
}

// A stopped thread that has blocked all signals unseen.
void Engine::open_trap(Task& task) {
  task.opens_trap = false;
  const auto mask = tracee::signal_mask(task.id.tid);
  if (!mask || trap_blocked_in(*mask) != TrapBlocked::with_all ||
      task.process->trap.kind != TrapDisposition::Kind::standard)
    return;
  (void)tracee::set_signal_mask(task.id.tid, *mask & ~tracee::signal_bit(SIGTRAP));
  task.trap_blocked = TrapBlocked::kept_open;
}

// The threads that have, in this memory, which are about to meet what we place there; one that sleeps in the
// kernel, mostly for a vfork child, stops before it runs on. `wait`: until they have come to that, as a rule.
void Engine::open_traps(const Image& image, Wait wait) {
  constexpr uint64_t kVforkWait = 300'000'000;  // ns
  constexpr timespec kBetween{0, 50'000};
  std::vector<pid_t> blocking;
  for (const auto& [tid, task] : tasks_) {
    const auto status = task->process->image.get() == &image ? tracee::read_status(tid) : std::nullopt;
    if (!status || trap_blocked_in(status->blocked) != TrapBlocked::with_all ||
        task->process->trap.kind != TrapDisposition::Kind::standard || tracee::forbids_calls(tid) ||
        tracee::interrupt(tid) == tracee::Alive::gone)
      continue;
    task->opens_trap = task->interrupted = true;
    blocking.push_back(tid);
  }
  const auto is_to_come = [&](pid_t tid) { return tasks_.contains(tid) && tasks_.at(tid)->opens_trap; };
  const auto awaits = [&] { return wait == Wait::yes && std::ranges::any_of(blocking, is_to_come); };
  const uint64_t begin = monotonic_now();
  const auto in_time = [&] { return wait == Wait::yes && monotonic_now() - begin < kVforkWait; };
  // Or what it waits for: its child's exec.
  while (awaits() && in_time()) {
    handle_some();
    if (awaits()) nanosleep(&kBetween, nullptr);
  }
  // A child that was made meanwhile has its parent's mask, and may have to wait for a processor.
  const auto is_on_its_way = [](const auto& birth) { return !birth.second.stopped; };
  while (std::ranges::any_of(births_, is_on_its_way) && in_time()) collect_births();
  // Its parent may still have to tell of it.
  for (auto& [tid, birth] : births_) {
    const auto mask = birth.stopped ? tracee::signal_mask(tid) : std::nullopt;
    if (!mask || trap_blocked_in(*mask) != TrapBlocked::with_all || tracee::forbids_calls(tid)) continue;
    (void)tracee::set_signal_mask(tid, *mask & ~tracee::signal_bit(SIGTRAP));
    birth.trap_blocked = TrapBlocked::kept_open;
  }
}

// No int3 stands yet, and no thread.
void Engine::look_at_masks(const Process& process) const {
  for (const auto& [tid, task] : tasks_)
    if (const auto status = task->process == &process ? tracee::read_status(tid) : std::nullopt)
      task->trap_blocked = trap_blocked_now(status->blocked, task->trap_blocked);
}

// The last that is done before an int3 stands.
void Engine::open_traps_before_sites(pid_t pid, const Image& image) {
  if (Process* process = still_running(pid, image)) process->trap = read_trap_disposition(pid);
  open_traps_and_look(pid, image);
}

void Engine::open_traps_and_look(pid_t pid, const Image& image) {
  open_traps(image, Wait::yes);
  if (const Process* process = still_running(pid, image)) look_at_masks(*process);
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
  if (ours && survival.leaves_a_trace())
    if (const auto stopped = need_stopped()) (void)survival.lower(*stopped, image.space());
  const bool withheld = task.process->trap.withheld;
  observe_signal_call(kind, regs, memory, task.process->trap, task.trap_blocked);
  const bool standard = task.process->trap.kind == TrapDisposition::Kind::standard;
  if (ours && !standard && !survival.is_given_up())
    reporter_.notice_once(task.process->name, risk_of_own_action(task.process->pid, task.process->name));
  if (ours) survival.program_set(standard, image.space());
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

// What an int3 that meets SIGTRAP blocked finds waiting comes in its place (kernel/signal.c, legacy_queue):
// of the thread's own signals. Where it was blocked shows by the mask alone, for threads block signals
// unseen.
bool Engine::taken_for_hit(pid_t tid) {
  const auto info = tracee::signal_info(tid);
  return info && info->si_code <= 0;
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

// A SIGTRAP that is not ours meets the program's own default action, not our handler. It comes once more,
// for it is sent anew behind the remote call. True where the thread has been resumed so.
bool Engine::step_aside(Task& task, const arch::Regs& regs) {
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
  if (!gone && !(borrows ? is_caught(task, *image) : image->survival().stands())) return false;
  const auto stopped = stop_here(task, regs)();
  if (!stopped) return false;
  if (gone) {
    if (!put_back_handler(*stopped, trap, image->space())) return false;
  } else if (borrows) {
    (void)Survival::lower_in_borrower(*stopped, image->space());
  } else {
    (void)image->survival().lower(*stopped, image->space());
  }
  runs_on(task);
  (void)tracee::resume(task.id.tid, SIGTRAP);
  return true;
}

// A new child with memory of its own, at its first stop: clean code, no handler and no page of ours.
void Engine::let_go_of_fork(pid_t child, Image& parent_image) {
  mech::AddressSpace& space = parent_image.space();
  const tracee::OpenedChild opened(child, space.memory());
  try {
    const tracee::ProcessMemory memory(child);
    space.restore(memory);
    space.lower_semaphores_of(memory);
    parent_image.unwrap_copy(child, memory);
    space.foothold().give_slack_back(memory);
    close_trap(child);  // not before: were we to die, it would meet an int3 with SIGTRAP blocked
    const auto regs = tracee::registers(child);
    if (!regs || tracee::forbids_calls(child) || !space.foothold().existed()) return;
    if (!Survival::leave_in(memory, child, space)) return;
    if (space.in_copy(regs->pc())) return;
    const Range slack = parent_image.find_slack(memory);
    const bool inside = parent_image.leads_to_wrapper(child, memory);
    const std::string failure =
        inside ? space.part_copies_of(memory, child, slack) : space.unmap_copies_of(memory, child, slack);
    if (!failure.empty()) RTRACE_LOG(session, 1, "copies stay in child {}: {}", child, failure);
  } catch (const Error& error) {
    if (tracee::signal_mask(child))  // else it died
      reporter_.say(fmt::format("child {} runs on with breakpoints in it: {}", child, error.what()));
  }
}

// Where SIGTRAP is caught by our own handler, it is the program's default.
TrapDisposition Engine::trap_of_orphan(pid_t child, Image* image) {
  TrapDisposition trap = read_trap_disposition(child);
  if (image != nullptr && image->survival().stands()) trap.kind = TrapDisposition::Kind::standard;
  return trap;
}

}  // namespace rtrace::session
