// Tasks and processes come and go.
#include <sched.h>
#include <sys/syscall.h>

#include <algorithm>
#include <filesystem>

#include "engine_core.h"
#include "privileges.h"
#include "rtrace/base/log.h"
#include "rtrace/session/permission.h"
#include "rtrace/tracee/opened_child.h"
#include "rtrace/tracee/proc_fs.h"
#include "rtrace/tracee/thread.h"

namespace rtrace::session {
namespace {

constexpr size_t kLastImages = 4;
constexpr uint64_t kStale = 100'000'000;        // ns
constexpr uint64_t kStaleBehind = 10 * kStale;  // where events are always waiting

std::string program_of(pid_t pid) {
  std::error_code gone;
  return std::filesystem::read_symlink(fmt::format("/proc/{}/exe", pid), gone).string();
}

}  // namespace

Process& Engine::add_process(pid_t pid) {
  return add_process(pid, tracee::read_comm(pid));
}

Process& Engine::add_process(pid_t pid, std::string name) {
  auto& process = processes_[pid];
  process = std::make_unique<Process>();
  process->pid = pid;
  process->name = std::move(name);
  return *process;
}

Task& Engine::add_task(pid_t tid, Process& process) {
  auto& task = tasks_[tid];
  task = std::make_unique<Task>();
  task->id = {process.pid, tid, next_serial_++};
  task->process = &process;
  task->clock = event::ThreadClock(monotonic_now());
  if (!process.silent && tasks_.size() > 1) reporter_.take(task->id, timestamp(), decode::ThreadStarted{});
  return *task;
}

void Engine::remove_task(Task& task) {
  queue_.forget(task.id.tid);
  tasks_.erase(task.id.tid);
}

void Engine::end_process(Process& process) {
  // Threads whose end has not been reported are gone too.
  for (auto task = tasks_.begin(); task != tasks_.end();) {
    if (task->second->process != &process) {
      ++task;
      continue;
    }
    queue_.forget(task->first);
    task = tasks_.erase(task);
  }
  begin_orphans(process);
  take_thread_pointer_back(process);
  hand_on_counts(process, nullptr);
  if (process.image != nullptr) last_images_.push_back(process.image);
  if (last_images_.size() > kLastImages) last_images_.erase(last_images_.begin());
  processes_.erase(process.pid);
}

// A child whose parent's event is still to come, or the end of a task that has been let go of.
void Engine::on_unknown(const tracee::WaitEvent& event) {
  const pid_t tid = event.tid;
  (void)tracee::consume(tid, tracee::Block::no);
  if (event.status.is_end()) {
    births_.erase(tid);
    return;
  }
  untold_.erase(tid);  // of one that had this tid before
  Birth& birth = births_[tid];
  birth.stopped = true;
  birth.seen = timestamp().monotonic;
  const auto status = tracee::read_status(tid);
  birth.parent_process = status ? status->parent : 0;
  begin_child(tid);
}

// The process has ended: children of its that it did not tell of have memory of their own by now.
void Engine::begin_orphans(Process& parent) {
  std::vector<pid_t> orphans;
  for (const auto& [tid, birth] : births_)
    if (birth.stopped && birth.parent_process == parent.pid) orphans.push_back(tid);
  for (pid_t tid : orphans) {
    const auto birth = births_.extract(tid);
    begin_orphan(tid, parent.image, birth.mapped().trap_blocked);
  }
  // Threads that died before their first stop never come; a child that only its parent told of still does.
  std::erase_if(births_, [&](const auto& birth) {
    return !birth.second.stopped && tracee::read_file(fmt::format("/proc/{}/comm", birth.first)).empty();
  });
}

// A parent that was killed at its event never tells of its child: after a while the child is known by what it
// is. What we did meanwhile may have taken as long, and the event may be waiting.
void Engine::begin_stale_births() {
  const uint64_t now = timestamp().monotonic;
  std::vector<pid_t> stale;
  for (const auto& [tid, birth] : births_)
    if (birth.stopped && birth.parent == 0 &&
        (nothing_was_due_ > birth.seen + kStale || now - birth.seen > kStaleBehind))
      stale.push_back(tid);
  for (pid_t tid : stale) {
    const auto birth = births_.extract(tid);
    untold_.insert(tid);
    begin_orphan(tid, image_of(tid), birth.mapped().trap_blocked);
  }
}

// Of a live process, or of one that has just ended, with the same program at the same place.
std::shared_ptr<Image> Engine::image_of(pid_t child) const {
  for (const auto& [pid, process] : processes_)
    if (process->image != nullptr && process->image->is_of(child)) return process->image;
  for (auto image = last_images_.rbegin(); image != last_images_.rend(); ++image)
    if ((*image)->is_of(child)) return *image;
  return nullptr;
}

// Where the kernel cannot tell, the child counts as having memory of its own only if no process of ours could
// have lent it.
bool Engine::shares_memory_with_any(pid_t child) const {
  return std::any_of(processes_.begin(), processes_.end(),
                     [&](const auto& entry) { return tracee::share_memory(child, entry.first); });
}

void Engine::begin_orphan(pid_t child, const std::shared_ptr<Image>& image,
                          std::optional<TrapBlocked> trap_blocked) {
  // A thread is known by its process, also where its parent's event is only late because we were slow.
  for (const auto& [pid, process] : processes_) {
    if (pid != child && is_thread_of(child, *process))
      return begin_thread(child, *process, trap_blocked.value_or(read_trap_blocked(child)));
  }
  const bool same_program = image != nullptr && image->is_of(child);
  const bool shared = shares_memory_with_any(child);
  if (!shared && (!options_.follow || !same_program || image->is_leaving())) {
    if (same_program) let_go_of_fork(child, *image);
    if (trap_blocked == TrapBlocked::kept_open) close_trap(child);
    (void)tracee::detach(child);
    return;
  }
  const ForkImage own = shared ? ForkImage{image, false} : image_of_fork(child, *image);
  if (own.image == nullptr && !shared) return;
  Process& process = add_process(child);
  process.silent = shared;
  process.image = own.image;
  process.trap = trap_of_orphan(child, image.get());
  Task& task = add_task(child, process);
  task.trap_blocked = trap_blocked.value_or(TrapBlocked::no);
  if (shared && image != nullptr) bridge_born(task, *image);
  if (own.anew)
    arm_child(task);
  else if (!shared)
    begin_wrappers(task, *image, std::nullopt);
  go_on(task, 0);
}

// clone(2), clone3(2): whether the child runs in the parent's memory. nullopt where the parent died.
std::optional<bool> Engine::shares_memory(Task& parent, tracee::NewTask::Kind kind) {
  // A clone whose child ends with SIGCHLD shows as a fork, and one with CLONE_VFORK as a vfork, whether it
  // shares memory or not (kernel/fork.c, kernel_clone).
  auto regs = tracee::registers(parent.id.tid);
  if (!regs) return std::nullopt;
  const bool by_kind = kind != tracee::NewTask::Kind::fork;
  const uint64_t argument = regs->syscall_argument(0);
  std::optional<uint64_t> flags;
  if (regs->raw.orig_rax == SYS_clone)
    flags = argument;
  else if (regs->raw.orig_rax == SYS_clone3 && parent.process->image != nullptr)
    flags = parent.process->image->space().memory().read_value<uint64_t>(VirtAddr{argument});
  return flags ? (*flags & CLONE_VM) != 0 : by_kind;
}

bool Engine::follows(const Process& parent) const {
  return options_.follow && !parent.silent && (parent.image == nullptr || !parent.image->is_leaving());
}

void Engine::on(Task& task, tracee::NewTask stop) {
  const auto child = tracee::event_message(task.id.tid);
  const auto shares = child ? shares_memory(task, stop.kind) : std::nullopt;
  const auto tid = static_cast<pid_t>(child.value_or(0));
  // What has begun as an orphan is told of too late.
  const bool late = untold_.erase(tid) > 0 || tasks_.contains(tid);
  if (child && shares && !late) {
    Birth& birth = births_[tid];
    birth.parent = task.id.tid;
    birth.kind = stop.kind;
    birth.shares_memory = *shares;
    if (!birth.trap_blocked) birth.trap_blocked = task.trap_blocked;
    if (owners_ && stop.kind == tracee::NewTask::Kind::vfork) (void)tracee::stop_at_vfork_end(task.id.tid);
    // When the child comes to its first stop the parent may have returned from what it is in now.
    const bool followed = follows(*task.process);
    if (followed && !*shares) {
      calls_.tell_unwound(task, CallTracer::unwound(task));
      birth.open = task;
      birth.open.inherited_below = calls_.next_call();
      birth.replays = task.replays;
      birth.recorder = recorder_of(task);
    }
    if (!task.process->silent && !is_thread_of(tid, *task.process)) {
      reporter_.take(task.id, timestamp(), decode::Forked{tid, followed, *shares});
      unfollowed_ += followed ? 0 : 1;
    }
    begin_child(tid);
  }
  go_on(task, 0);
}

bool Engine::is_thread_of(pid_t child, const Process& process) const {
  auto status = tracee::read_status(child);
  return status && status->tgid == process.pid;
}

// Runs when both sides have told: the child stands at its first stop, in the kernel, and has not run yet.
void Engine::begin_child(pid_t tid) {
  Birth& told = births_[tid];
  if (told.parent == 0 || !told.stopped) return;
  Birth birth = std::move(told);
  births_.erase(tid);
  auto parent = tasks_.find(birth.parent);
  if (parent == tasks_.end()) return begin_orphan(tid, image_of(tid), birth.trap_blocked);
  if (is_thread_of(tid, *parent->second->process))
    return begin_thread(tid, *parent->second->process, birth.trap_blocked.value_or(TrapBlocked::no));
  begin_new_process(tid, *parent->second, std::move(birth));
}

void Engine::begin_thread(pid_t tid, Process& process, TrapBlocked trap_blocked) {
  Task& thread = add_task(tid, process);
  if (services_.recording != agent::Mode::count) (void)tracee::set_at_end(tid, tracee::AtEnd::runs);
  thread.trap_blocked = trap_blocked;
  // Its parent had blocked it unseen, and was opened behind that.
  const bool unseen = is_bridged(thread) && process.image->is_arming();
  if (unseen || trap_blocked == TrapBlocked::kept_open) open_trap(thread);
  begin_record_of(thread);
  thread.muted = options_.ltrace_compat && !options_.follow;
  go_on(thread, 0);
}

// A copy of the parent's. One that was forked before our pages were there, or while the parent's probes are
// being placed, is read anew, as if it were attached to. nullptr, and why, where it cannot be followed.
ForkImage Engine::read_fork(pid_t child, Image& image, std::string& failure) {
  const tracee::OpenedChild opened(child, image.space().memory());
  try {
    const auto& pages = image.space().foothold();
    const tracee::ProcessMemory memory(child);
    const bool complete = !image.is_arming() && (!pages.exists() || pages.stands_in(memory)) &&
                          image.are_probes_in(memory) && image.space().complete_child(memory, child);
    if (complete) return {image.clone_for(child), false};
    let_go_of_fork(child, image);
    if (auto own = read_image(child, failure)) return {std::move(own), true};
  } catch (const Error& error) {
    failure = error.what();
    let_go_of_fork(child, image);
  }
  return {};
}

// nullptr where it is let go of.
ForkImage Engine::image_of_fork(pid_t child, Image& image) {
  std::string failure;
  ForkImage own = read_fork(child, image, failure);
  if (own.image != nullptr) return own;
  reporter_.say(fmt::format("child {} is not followed: {}", child, failure));
  (void)tracee::detach(child);
  return {};
}

// A child before its first instruction, whose image was read anew. Its parent had all signals blocked, as a
// rule, and SIGTRAP was so again when it was let go of.
void Engine::arm_child(Task& child) {
  child.process->image->sync(Image::Moment::attach, child.id, [tid = child.id.tid]() -> std::optional<pid_t> {
    return tracee::forbids_calls(tid) ? std::nullopt : std::optional(tid);
  });
  if (is_with_all(child.trap_blocked)) open_trap(child);
}

void Engine::begin_new_process(pid_t child, Task& parent, Birth birth) {
  const bool shares_memory = birth.shares_memory;
  const std::shared_ptr<Image> image = parent.process->image;
  const bool followed = follows(*parent.process);
  if (!followed && !shares_memory) {
    if (image != nullptr) let_go_of_fork(child, *image);
    if (birth.trap_blocked == TrapBlocked::kept_open) close_trap(child);
    (void)tracee::detach(child);
    return;
  }
  const bool same_image = shares_memory || image == nullptr;
  const ForkImage own = same_image ? ForkImage{image, false} : image_of_fork(child, *image);
  if (own.image == nullptr && image != nullptr) return;
  Process& process = add_process(child);
  process.silent = !followed;
  process.trap = parent.process->trap;
  process.image = own.image;
  Task& task = add_task(child, process);
  task.trap_blocked = birth.trap_blocked.value_or(TrapBlocked::no);
  if (parent.id.tid != parent.process->pid) (void)tracee::set_at_end(child, tracee::AtEnd::stops);
  if (shares_memory) lend_thread_pointer(parent, task, birth.kind);
  if (shares_memory && image != nullptr) bridge_born(task, *image);
  if (own.anew) {
    arm_child(task);
  } else if (followed && !shares_memory) {
    static_cast<LiveCalls&>(task) = std::move(birth.open);
    task.replays = std::move(birth.replays);
    task.clock.resumed(monotonic_now());
    if (image != nullptr) begin_wrappers(task, *image, birth.recorder);
  }
  go_on(task, 0);
}

void Engine::on(Task& task, tracee::Exec) {
  const pid_t pid = task.id.tid;
  const auto former = tracee::event_message(pid);
  Process& process = *task.process;
  (void)tracee::consume(pid, tracee::Block::no);
  queue_.forget(pid);
  tracee::forget_status(pid);  // another thread may have become this one
  task.account = {};
  if (process.silent) {
    if (!tracing_leaves_privileges())
      tell_withheld(reporter_, pid, tracee::read_status(pid).value_or(tracee::StatusFields{}));
    return let_begin(task);
  }
  // Whoever called exec has the process's tid now; all other threads are gone, and their calls with them.
  std::vector<pid_t> others;
  const auto execer = former ? tasks_.find(static_cast<pid_t>(*former)) : tasks_.end();
  const auto execve = SyscallTracer::take_exec(execer != tasks_.end() ? *execer->second : task);
  take_all_records(process);
  for (auto& [tid, other] : tasks_) {
    if (other->process != &process) continue;
    syscalls_.abandon(*other);
    calls_.abandon_all(*other);
    if (tid != pid) others.push_back(tid);
  }
  for (pid_t tid : others) remove_task(*tasks_.at(tid));
  hand_on_counts(process, &task);
  if (former && static_cast<pid_t>(*former) != pid)
    RTRACE_LOG(session, 1, "exec of {} by its thread {}", pid, *former);
  task.replays.clear();
  task.rewound.reset();
  task.tail_jump.reset();
  task.awaits_signal_call = 0;
  if (!process.launching) reporter_.take(task.id, timestamp(), decode::Executed{program_of(pid)});
  if (execve) syscalls_.executed(task, *execve);
  take_thread_pointer_back(process);
  abandon_image(process);
  begin_image(task);
}

// The new program stands before its first instruction, in a consumed stop.
void Engine::begin_image(Task& task) {
  Process& process = *task.process;
  const pid_t pid = process.pid;
  process.launching = false;
  // In a child that began in another's memory the action is what it has set itself, or the default.
  const bool withheld = process.trap.withheld && process.image != nullptr && process.image->pid() == pid;
  process.image.reset();
  const auto status = tracee::status_of_stopped(pid).value_or(tracee::StatusFields{});
  process.name = status.name;
  tell_withheld(reporter_, pid, status);
  process.trap =
      trap_disposition_in(status);  // ignored stays ignored, caught becomes the default (execve(2))
  if (task.trap_blocked == TrapBlocked::kept_open) close_trap(pid);
  task.trap_blocked = trap_blocked_in(tracee::signal_mask(pid).value_or(status.blocked));
  try {
    process.image = std::make_shared<Image>(pid, services_);
    // The stop lies inside execve: a remote call's registers may only be set when the kernel has written its
    // result.
    const auto leave_exec = [pid, status, outside = false]() mutable -> std::optional<pid_t> {
      outside = outside || (!tracee::forbids_calls(pid) && tracee::leave_syscall(pid) == tracee::Alive::yes);
      if (!outside) return std::nullopt;
      tracee::remember_status(pid, status);
      return pid;
    };
    process.image->begin(task.id, leave_exec, withheld ? Image::Room::always : Image::Room::as_needed);
    if (withheld) ignore_trap_again(process);
    remember(process.image->objects());
    if (process.image->settled()) tell_started(task.id);
    if (!ready_ && (options_.syscalls || process.image->is_armed())) tell_ready();
  } catch (const Error& error) {
    std::string why = why_memory_is_closed(standing_of(pid));
    if (why.empty()) why = error.what();
    reporter_.say(fmt::format("process {} ({}) runs on untraced: {}", pid, process.name, why));
    if (withheld) tell_of_default(process);
  }
  go_on(task, 0);
}

}  // namespace rtrace::session
