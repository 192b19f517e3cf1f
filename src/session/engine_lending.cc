// Tasks that run in another's memory with its thread pointer (vfork, clone with CLONE_VM), which is all that
// the recorder in the process tells threads apart by.
#include <algorithm>

#include "engine_core.h"
#include "rtrace/tracee/thread.h"

namespace rtrace::session {

// A child that runs in its parent's memory has its thread pointer too: its calls are not the parent's. Of a
// vfork the parent tells the end itself; it runs on before we see its child's exec. Until then the records
// are the child's, where it is followed.
void Engine::lend_thread_pointer(Task& parent, Task& child, tracee::NewTask::Kind kind) const {
  Process& process = *child.process;
  // What a silent parent has is lent to it already.
  if (!owners_ || process.image == nullptr || parent.process->silent) return;
  const auto regs = tracee::registers(child.id.tid), parents = tracee::registers(parent.id.tid);
  if (!regs || regs->raw.fs_base == 0) return;
  if (parents && parents->raw.fs_base != regs->raw.fs_base) return;  // CLONE_SETTLS
  const uint64_t thread_pointer = regs->raw.fs_base;
  const mech::Trampolines* trampolines = process.image->trampolines();
  const bool begun = trampolines != nullptr && trampolines->begun();
  if (kind == tracee::NewTask::Kind::vfork) {
    parent.thread_pointer = thread_pointer;
  } else {
    process.borrowed_thread_pointer = thread_pointer;
    process.lender = parent.id.tid;
  }
  if (!begun) return;
  if (kind != tracee::NewTask::Kind::vfork || process.silent)
    return trampolines->records().mute(thread_pointer, parent.id.tid);
  const auto state = trampolines->state_of(thread_pointer);
  child.thread_pointer = thread_pointer;
  child.held_before = state ? state->held : 0;
  child.counted_before = state ? state->own : 0;
  parent.lent = state.value_or(mech::ThreadState{});
  process.image->records_are_of(thread_pointer, child.id.tid);
}

void Engine::vfork_ended(Task& parent) const {
  Image* image = parent.process->image.get();
  const auto lent = std::exchange(parent.lent, std::nullopt);
  if (parent.thread_pointer == 0 || image == nullptr) return;
  const mech::Trampolines* trampolines = image->trampolines();
  if (trampolines == nullptr || !trampolines->begun()) return;
  if (!is_lent(*image, parent.thread_pointer)) trampolines->records().unmute(parent.thread_pointer);
  if (!lent) return;
  image->records_are_of(parent.thread_pointer, parent.id.tid);
  trampolines->records().leave_calls(parent.thread_pointer, parent.id.tid, *lent);
}

// It stands in the recorder's question: for a page, or for who it is.
void Engine::answer_recorder(const Task& task, const Image& image, const arch::Regs& regs) {
  image.answer_recorder(task.id.tid, regs);
  if (regs.raw.rdi != 0 || task.process->silent) return;
  if (task.process->borrowed_thread_pointer != 0) ++task.process->lost_by_borrowing.untold;
}

// Several may run in that memory at once.
void Engine::take_thread_pointer_back(Process& child) {
  tell_lost_by_borrowing(child, {child.pid, child.pid, 0});
  const uint64_t thread_pointer = std::exchange(child.borrowed_thread_pointer, 0);
  if (thread_pointer == 0 || child.image == nullptr || is_lent(*child.image, thread_pointer)) return;
  const mech::Trampolines* trampolines = child.image->trampolines();
  if (trampolines != nullptr && trampolines->begun()) trampolines->records().unmute(thread_pointer);
}

bool Engine::is_lent(const Image& image, uint64_t thread_pointer) const {
  return std::ranges::any_of(processes_, [&](const auto& entry) {
    return entry.second->image.get() == &image && entry.second->borrowed_thread_pointer == thread_pointer;
  });
}

// A task that runs on a thread pointer which another has, too.
bool Engine::has_lent_pointer(const Task& task) const {
  if (task.process->borrowed_thread_pointer != 0) return true;
  return std::ranges::any_of(tasks_, [&](const auto& entry) {
    const Task& other = *entry.second;
    return &other != &task && other.lent && other.thread_pointer == task.thread_pointer &&
           other.process->image == task.process->image;
  });
}

// To those that had it before there was a recorder.
void Engine::mute_lent(Image& image) const {
  const mech::Trampolines* trampolines = image.trampolines();
  if (trampolines == nullptr || !trampolines->begun()) return;
  for (const auto& [pid, process] : processes_)
    if (process->image.get() == &image && process->borrowed_thread_pointer != 0)
      trampolines->records().mute(process->borrowed_thread_pointer, process->lender);
}

}  // namespace rtrace::session
