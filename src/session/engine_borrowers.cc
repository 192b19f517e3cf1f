// Tasks of other processes in a traced one's memory (vfork, clone with CLONE_VM): our int3s are theirs too,
// and the actions for signals their own.
#include <algorithm>
#include <ctime>
#include <vector>

#include "beginning.h"
#include "engine_core.h"
#include "rtrace/tracee/thread.h"

namespace rtrace::session {

// It has our handler, from its parent or by us; or one of its own.
static bool has_copied_bridge(const Task& task, const Image& image) {
  return task.process->image.get() == &image && task.process->pid != image.pid() && catches_trap(task.id.tid);
}

// Whether it runs in that memory with actions of its own that were copied before our handler stood.
bool Engine::lacks_bridge(const Task& task, const Image& image) {
  const Process& process = *task.process;
  return process.image.get() == &image && process.pid != image.pid() &&
         process.trap.kind == TrapDisposition::Kind::standard && !catches_trap(task.id.tid) &&
         !tracee::forbids_calls(task.id.tid);
}

// The program of one that is not followed, in a consumed stop in which nothing of ours is ahead of it.
void Engine::let_begin(Task& borrower) {
  const pid_t pid = borrower.id.tid;
  take_thread_pointer_back(*borrower.process);
  close_trap(pid);
  (void)tracee::detach(pid);
  remove_task(borrower);
  processes_.erase(pid);
}

// At its first stop.
void Engine::bridge_born(Task& borrower, Image& image) {
  open_trap(borrower);  // its parent blocked it unseen
  await_exec(borrower);
  const bool may_lack = image.is_arming() || image.was_armed_lately() || image.survival().raised_lately();
  if (may_lack && image.survival().stands() && lacks_bridge(borrower, image))
    Survival::raise_in_borrower(borrower.id.tid, image.space());
}

// A probe that it has met blocked: the kernel has taken its own handler away, and not the process's.
void Engine::keep_bridge_of_borrower(Task& borrower, Image& image, const NeedStopped& need_stopped) {
  // Where it is blocked again it would be taken away at each.
  if (!is_with_all(borrower.trap_blocked)) return;
  borrower.trap_blocked = TrapBlocked::kept_open;  // the hit has unblocked it
  if (!image.survival().stands() || !lacks_bridge(borrower, image)) return;
  if (const auto stopped = need_stopped()) Survival::raise_in_borrower(*stopped, image.space());
}

// Those that there are when the handler stands, and no int3 yet. One that began with all signals blocked, as
// posix_spawn()'s does, is about to set the default action for each, and to begin its program: mostly that is
// waited for.
void Engine::bridge_borrowers(pid_t pid, Image& image) {
  constexpr uint64_t kExecWait = 300'000'000;  // ns
  constexpr timespec kBetween{0, 50'000};
  if (std::ranges::none_of(tasks_, [&](const auto& task) { return lacks_bridge(*task.second, image); }))
    return;
  for (const uint64_t begin = monotonic_now(); still_running(pid, image) != nullptr;) {
    const bool late = monotonic_now() - begin > kExecWait;
    std::vector<pid_t> ready;
    bool others = false;
    for (const auto& [tid, task] : tasks_) {
      if (!lacks_bridge(*task, image)) continue;
      const bool waits = !late && task->trap_blocked != TrapBlocked::no;
      others |= waits;
      if (!waits) ready.push_back(tid);
    }
    for (pid_t tid : ready) {
      if (!hold(tid)) continue;
      Survival::raise_in_borrower(tid, image.space());
      let_held_run(tid);
    }
    if (!others) break;
    nanosleep(&kBetween, nullptr);
    handle_some();
  }
  open_traps_and_look(pid, image);
}

// At a stop of its that we asked for; consumed, at the program's registers behind it.
void Engine::bridge_at_stop(Task& borrower, Image& image) {
  rewind(borrower);
  (void)tracee::consume(borrower.id.tid, tracee::Block::no);
  queue_.forget(borrower.id.tid);
  Survival::raise_in_borrower(borrower.id.tid, image.space());
}

// Where the handler was raised late: each at its next stop.
void Engine::ask_borrowers(const Image& image) {
  for (const auto& [tid, task] : tasks_)
    if (lacks_bridge(*task, image) && tracee::interrupt(tid) == tracee::Alive::yes) task->interrupted = true;
}

// Whether it is worth to let it stand for that: not where it is about to begin its program anyway, nor where
// who is to make our calls waits for just that.
bool Engine::is_to_be_lowered(const Leaving& leaving, const Task& task, const Image& image) {
  if (task.trap_blocked != TrapBlocked::no || !has_copied_bridge(task, image)) return false;
  const auto caller = leaving.callers.find(image.pid());
  const auto status = caller != leaving.callers.end() ? tracee::read_status(caller->second) : std::nullopt;
  return status && status->state != 'D';
}

// When they are left: those that stand, as long as our pages are there. Why one keeps our handler, if one
// does.
std::string Engine::lower_in_borrowers(Leaving& leaving, Image& image) {
  std::string failure;
  for (pid_t tid : leaving.stopped) {
    const auto task = tasks_.find(tid);
    if (task == tasks_.end() || !has_copied_bridge(*task->second, image)) continue;
    if (tracee::forbids_calls(tid)) {
      failure = "a seccomp filter is in force";
      continue;
    }
    rewind(*task->second);
    if (!Survival::lower_in_borrower(tid, image.space()))
      failure = "the thread could not make the system call";
    leaving.called.insert(tid);
  }
  return failure;
}

}  // namespace rtrace::session
