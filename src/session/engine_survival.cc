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
  raise_where_due(task, image, need_stopped);
}

// An action, by one of its threads, or a mask; or it is asked for.
bool Engine::is_being_set(const Process& process) const {
  return std::ranges::any_of(tasks_, [&](const auto& task) {
    return task.second->process == &process && task.second->awaits_signal_call != 0;
  });
}

// Also where an action has just been set: the next hit may be long after our death.
void Engine::raise_where_due(const Task& task, Image& image, const NeedStopped& need_stopped) {
  Survival& survival = image.survival();
  const TrapDisposition& trap = task.process->trap;
  const bool caught = trap.kind == TrapDisposition::Kind::caught && trap.action_known;
  if (!survival.wants_raising() || (!caught && trap.kind != TrapDisposition::Kind::standard)) return;
  // Who sets an action finds the one before it.
  if (caught && is_being_set(*task.process)) return;
  const auto stopped = image.space().foothold().exists() ? need_stopped() : std::nullopt;
  if (!stopped) return;
  if (!caught) return survival.raise(*stopped, image.space());
  survival.screen(*stopped, image.space());
  if (survival.is_without_default() && !survival.screens())
    reporter_.notice_once(task.process->name, risk_of_own_action(task.process->pid, task.process->name));
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

// Of a stopped thread.
static bool is_in_handler(const Task& task, Image& image) {
  const auto thread = mech::look_at(task.id.tid, image.space().memory(), tracee::read_maps(image.pid()));
  return !thread || mech::runs_handler_that_blocks(*thread, tracee::signal_bit(SIGTRAP));
}

// It stands, and its mask has been looked at.
void Engine::judge_found(Task& task) {
  if (task.trap_blocked == TrapBlocked::found && task.process->image != nullptr)
    task.trap_blocked =
        is_in_handler(task, *task.process->image) ? TrapBlocked::in_handler : TrapBlocked::yes;
}

// At a hit, before anything else is made of it. Where a handler for SIGTRAP stands, and no other's hit has
// had it raised meanwhile, this one has not met it blocked. A handler's mask ends with it, whatever becomes
// of it until then.
static void judge_at_hit(Task& task, Image& image, bool alone) {
  if (task.trap_blocked != TrapBlocked::found && task.trap_blocked != TrapBlocked::in_handler) return;
  const bool gone = !catches_trap(task.id.tid);
  const bool known = !gone && (alone || image.survival().raised_once());
  const bool by_handler = task.trap_blocked == TrapBlocked::in_handler || is_in_handler(task, image);
  task.trap_blocked = known || by_handler ? TrapBlocked::no : TrapBlocked::yes;
  if (gone && by_handler) image.survival().reset_by_kernel(image.space());
}

// After a hit.
void Engine::restore_trap(Task& task, Look look, const NeedStopped& need_stopped) const {
  Process& process = *task.process;
  judge_at_hit(task, *process.image, !has_others(task));
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
  const Survival& survival = image.survival();
  if (image.pid() == process.pid) return survival.stands() || survival.screens();
  return survival.stands() && process.trap.kind == TrapDisposition::Kind::standard &&
         catches_trap(task.id.tid);
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
