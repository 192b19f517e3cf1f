// Becoming the tracer of a running process: all its threads, and whoever runs in its memory.
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "beginning.h"
#include "engine_core.h"
#include "rtrace/base/log.h"
#include "rtrace/tracee/proc_fs.h"
#include "rtrace/tracee/seizing.h"
#include "rtrace/tracee/thread.h"

namespace rtrace::session {
namespace {

constexpr unsigned kForkWait = 20;  // ms, for a thread to come to the stop that we asked for
constexpr int kForkRounds = 50;
constexpr int kSeizeAttempts = 3;

bool may_be_forking(pid_t tid) {
  const auto call = tracee::read_syscall(tid);
  if (!call) return true;  // it runs, in the kernel for all we know
  return *call == SYS_fork || *call == SYS_vfork || *call == SYS_clone || *call == SYS_clone3;
}

// The kernel says EPERM of a thread that its seized creator made, for it is ours already, and of one that is
// ending.
bool is_ours_or_gone(const std::optional<tracee::StatusFields>& status) {
  return !status || status->tracer == getpid() || status->state == 'Z' || status->state == 'X';
}

struct Seized {
  int error_number = 0;
  std::optional<tracee::StatusFields> status{};  // afterwards
};

// EPERM of a thread that nobody traces may have been said of a first thread that was ending, for another that
// has called exec and has its tid since.
Seized seize_whoever_has(pid_t tid, tracee::Seizing& seizing) {
  for (int attempt = 1;; ++attempt) {
    const int error_number = seizing.seize(tid);
    const auto status = tracee::read_status(tid);
    const bool may_be_another = error_number == EPERM && !is_ours_or_gone(status) && status->tracer == 0;
    if (!may_be_another || attempt == kSeizeAttempts) return {error_number, status};
  }
}

}  // namespace

// Whether the process's first thread is another now than the one that was seized: a thread that was not yet
// has called exec, and no tracer is told.
static bool lost_to_exec(const Process& process, pid_t tid) {
  if (tid != process.pid) return false;
  const auto status = tracee::read_status(tid);
  return status && status->tracer == 0 && status->state != 'Z' && status->state != 'X';
}

// A thread that is created while we look appears in the folder, or is traced already because its creator is.
int Engine::seize_all(Process& process) {
  tracee::Seizing seizing(process.pid);
  const int error_number = seize_all(process, seizing);
  for (const tracee::WaitEvent& ended : seizing.take_ended()) handle(ended);
  forget_lost(process);
  if (error_number != 0) return error_number;
  const auto is_its = [&](const auto& task) { return task.second->process == &process; };
  return std::any_of(tasks_.begin(), tasks_.end(), is_its) ? 0 : ESRCH;
}

int Engine::seize_all(Process& process, tracee::Seizing& seizing) {
  for (bool found = true; found;) {
    found = false;
    for (pid_t tid : tracee::read_tasks(process.pid)) {
      if ((tasks_.contains(tid) && !lost_to_exec(process, tid)) || births_.contains(tid)) continue;
      const auto [error_number, status] = seize_whoever_has(tid, seizing);
      if (error_number == ESRCH) continue;  // ended in the meantime
      if (error_number == EPERM && is_ours_or_gone(status)) continue;
      if (error_number != 0) return error_number;
      found = true;
      // Where it has called exec meanwhile it has the first thread's tid now, and is ours under that.
      const pid_t now = status ? tid : process.pid;
      if (!tasks_.contains(now)) add_task(now, process).trap_blocked = read_trap_blocked(now);
    }
  }
  return 0;
}

// Of a first thread whose tid an untraced one has taken no end is told.
void Engine::forget_lost(const Process& process) {
  std::vector<pid_t> lost;
  for (const auto& [tid, task] : tasks_) {
    if (task->process != &process) continue;
    const auto status = tracee::read_status(tid);
    if (!status || status->tracer != getpid()) lost.push_back(tid);
  }
  for (pid_t tid : lost) remove_task(*tasks_.at(tid));
}

// Others may never cease to stop.
void Engine::handle_some() {
  for (size_t most = 4 * tasks_.size(); most > 0; --most) {
    const auto event = queue_.next(tasks_, tracee::Block::no).event;
    if (!event) return;
    handle(*event);
  }
}

// A fork that was under way when its thread was seized makes a child that nobody traces. It has copied the
// handlers by then and not yet the memory (kernel/fork.c, copy_process), so that an int3 written now would
// kill it. A thread that has stopped once is in no such fork.
void Engine::let_forks_finish(Process& process) {
  std::vector<pid_t> forking;
  for (const auto& [tid, task] : tasks_)
    if (task->process == &process && may_be_forking(tid)) forking.push_back(tid);
  for (pid_t tid : forking) {
    for (int round = 0; round < kForkRounds && tasks_.contains(tid) && !lends_memory(tid); ++round) {
      if (tracee::interrupt(tid) == tracee::Alive::gone) break;
      tasks_.at(tid)->interrupted = true;
      const auto event = stop_of(tid, kForkWait);
      if (event) handle(*event);
      if (event) break;
      handle_some();  // it may exec, and wait until all others' ends have been taken
    }
  }
}

// A thread stops at its system calls only when it was resumed so.
void Engine::begin_syscalls(const Process& process) {
  for (auto& [tid, task] : tasks_) {
    if (task->process != &process || task->listening) continue;
    if (tracee::interrupt(tid) == tracee::Alive::yes) task->interrupted = true;
  }
}

// A thread that waits for a vfork child.
bool Engine::lends_memory(pid_t tid) const {
  const auto children = tracee::read_children(tid);
  return std::any_of(children.begin(), children.end(),
                     [&](pid_t child) { return tracee::share_memory(child, tid); });
}

// Children that vfork or posix_spawn made before we came: they would meet the sites untraced.
void Engine::seize_borrowers(const Process& process) {
  const std::shared_ptr<Image> image = process.image;
  std::vector<pid_t> lenders = {process.pid};
  while (!lenders.empty()) {
    const pid_t lender = lenders.back();
    lenders.pop_back();
    for (pid_t tid : tracee::read_tasks(lender)) {
      for (pid_t child : tracee::read_children(tid)) {
        if (tasks_.contains(child) || !tracee::share_memory(child, tid)) continue;
        if (tracee::seize(child) != 0) continue;  // it has ended, or is another's
        Process& borrower = add_process(child);
        borrower.silent = true;
        borrower.image = image;
        borrower.trap = read_trap_disposition(child);
        Task& task = add_task(child, borrower);
        task.trap_blocked = read_trap_blocked(child);
        await_exec(task);
        if (task.awaits_exec && tracee::interrupt(child) == tracee::Alive::yes) task.interrupted = true;
        if (tracee::read_tasks(child).size() > 1) (void)seize_all(borrower);
        lenders.push_back(child);
        RTRACE_LOG(session, 1, "child {} runs in the memory of {}", child, lender);
      }
    }
  }
}

}  // namespace rtrace::session
