// Tasks of other processes in a traced one's memory (vfork, clone with CLONE_VM): our int3s are theirs too,
// and the actions for signals their own.
#include <ctime>
#include <vector>

#include "engine_core.h"
#include "rtrace/tracee/thread.h"

namespace rtrace::session {

// Whether it runs in that memory with actions of its own that were copied before our handler stood.
bool Engine::lacks_bridge(const Task& task, const Image& image) {
  const Process& process = *task.process;
  return process.image.get() == &image && process.pid != image.pid() &&
         process.trap.kind == TrapDisposition::Kind::standard && !catches_trap(task.id.tid) &&
         !tracee::forbids_calls(task.id.tid);
}

// At its first stop.
void Engine::bridge_born(Task& borrower, Image& image) {
  open_trap(borrower);  // its parent blocked it unseen
  if (image.survival().raised_lately() && lacks_bridge(borrower, image))
    Survival::raise_in_borrower(borrower.id.tid, image.space());
}

// Those that there are when the handler stands, and no int3 yet. One that began with all signals blocked, as
// posix_spawn()'s does, is about to set the default action for each, and to begin its program: mostly that is
// waited for.
void Engine::bridge_borrowers(Image& image) {
  constexpr uint64_t kExecWait = 300'000'000;  // ns
  constexpr timespec kBetween{0, 200'000};
  if (!image.survival().stands()) return;
  for (const uint64_t begin = monotonic_now();;) {
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
    if (!others) return;
    nanosleep(&kBetween, nullptr);
    handle_some();
  }
}

}  // namespace rtrace::session
