// What the engine does so that its own death leaves no trace: the bridging handler, kept where the program
// has the default action for SIGTRAP.
#include <algorithm>
#include <csignal>

#include "engine_core.h"
#include "rtrace/base/log.h"
#include "rtrace/base/moment.h"
#include "rtrace/tracee/proc_fs.h"
#include "rtrace/tracee/thread.h"

namespace rtrace::session {

// A thread that blocked SIGTRAP while it was being attached to, unseen, shows by what the kernel does at its
// first hit: it resets the action (kernel/signal.c, force_sig_info_to_task). Among several threads another's
// hit may have been that.
void Engine::note_reset_at_first_hit(Task& task) const {
  const Process& process = *task.process;
  const bool has_others = std::ranges::any_of(tasks_, [&](const auto& other) {
    return other.second->process == &process && other.second.get() != &task;
  });
  if (task.trap_blocked != TrapBlocked::no || process.silent || process.image == nullptr || has_others)
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

// At each hit. Raises the handler again where the kernel has reset it.
void Engine::keep_bridge(Task& task, Image& image, const NeedStopped& need_stopped) {
  if (task.process->silent) return;  // its actions are its own
  Survival& survival = image.survival();
  if (task.trap_blocked == TrapBlocked::yes || task.trap_blocked == TrapBlocked::with_all) {
    if (survival.tells_of_blocking())
      reporter_.notice(
          fmt::format("threads of process {} ({}) meet probes while they block SIGTRAP: SIGKILL of rtrace "
                      "could kill it then",
                      task.process->pid, task.process->name));
    survival.reset_by_kernel();
    // The hit has unblocked it.
    if (task.trap_blocked == TrapBlocked::with_all) task.trap_blocked = TrapBlocked::kept_open;
  }
  if (!survival.wants_raising() || task.process->trap.kind != TrapDisposition::Kind::standard) return;
  if (const auto stopped = image.space().foothold().exists() ? need_stopped() : std::nullopt)
    survival.raise(*stopped, image.space());
}

// A thread is about to ask for, or change, signal state: it must find its own.
void Engine::at_signal_call(Task& task, Image& image, SignalCall::Kind kind, const arch::Regs& regs,
                            const NeedStopped& need_stopped) {
  const bool about_trap =
      kind != SignalCall::Kind::mask && static_cast<int>(regs.integer_argument(0)) == SIGTRAP;
  Survival& survival = image.survival();
  const bool ours = about_trap && !task.process->silent;
  if (ours && survival.leaves_a_trace())
    if (const auto stopped = need_stopped()) (void)survival.lower(*stopped, image.space());
  observe_signal_call(kind, regs, image.space().memory(), task.process->trap, task.trap_blocked);
  if (kind == SignalCall::Kind::mask && is_with_all(task.trap_blocked)) image.unwatch_masks();
  if (ours) survival.program_set(task.process->trap.kind == TrapDisposition::Kind::standard);
}

// A SIGTRAP that is not ours meets the program's own default action, not our handler. It comes once more,
// for it is sent anew behind the remote call. True where the thread has been resumed so.
bool Engine::step_aside(Task& task, const arch::Regs& regs) {
  Image* image = task.process->image.get();
  if (image == nullptr || task.process->silent || !image->survival().stands()) return false;
  const auto stopped = stop_here(task, regs)();
  if (!stopped) return false;
  (void)image->survival().lower(*stopped, image->space());
  runs_on(task);
  (void)tracee::resume(task.id.tid, SIGTRAP);
  return true;
}

// A new child with memory of its own, at its first stop: clean code, no handler and no page of ours.
void Engine::let_go_of_fork(pid_t child, Image& parent_image) {
  close_trap(child);
  try {
    const tracee::ProcessMemory memory(child);
    mech::AddressSpace& space = parent_image.space();
    space.restore(memory);
    space.lower_semaphores_of(memory);
    parent_image.unwrap_copy(child, memory);
    space.foothold().give_slack_back(memory);
    const auto regs = tracee::registers(child);
    if (!regs || tracee::forbids_calls(child) || !space.foothold().existed()) return;
    if (!Survival::lower_in(memory, child, space)) return;
    if (space.in_copy(regs->pc())) return;
    const Range slack = parent_image.find_slack();
    const bool inside = parent_image.leads_to_wrapper(child, memory);
    const std::string failure =
        inside ? space.part_copies_of(memory, child, slack) : space.unmap_copies_of(memory, child, slack);
    if (!failure.empty()) RTRACE_LOG(session, 1, "copies stay in child {}: {}", child, failure);
  } catch (const Error& error) {
    RTRACE_LOG(session, 1, "child {}: {}", child, error.what());  // it died
  }
}

// Where SIGTRAP is caught by our own handler, it is the program's default.
TrapDisposition Engine::trap_of_orphan(pid_t child, Image* image) {
  TrapDisposition trap = read_trap_disposition(child);
  if (image != nullptr && image->survival().stands()) trap.kind = TrapDisposition::Kind::standard;
  return trap;
}

}  // namespace rtrace::session
