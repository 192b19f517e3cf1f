// Letting go: every process runs on as if nothing had been.
#include <algorithm>
#include <cerrno>

#include "engine_core.h"
#include "rtrace/base/log.h"
#include "rtrace/base/moment.h"
#include "rtrace/mech/repair.h"
#include "rtrace/tracee/proc_fs.h"
#include "rtrace/tracee/thread.h"

namespace rtrace::session {
namespace {

// ms for all tasks together; one in an uninterruptible sleep may take longer and is left to the kernel
constexpr unsigned kStopPatience = 2000;
constexpr int kRounds = 5;  // of waiting a millisecond for each task
constexpr std::chrono::milliseconds kCleanLater(500);
constexpr unsigned kWakeWait = 50;  // ms

uint64_t now_ms() {
  return timestamp().monotonic / 1'000'000;
}

}  // namespace

void Engine::detach_all() {
  std::set<pid_t> all;
  for (auto& [pid, process] : processes_) all.insert(pid);
  detach(std::move(all));
}

// First stops of children whose birth is being told. Those that may go are cleaned and gone after this; the
// others are tasks like any.
void Engine::collect_births() {
  std::vector<pid_t> unseen;
  for (const auto& [tid, birth] : births_)
    if (!birth.stopped) unseen.push_back(tid);
  for (pid_t tid : unseen)
    if (const auto event = tracee::consume_within(tid, 1)) on_unknown(*event);
}

bool Engine::sleeps_outside_copies(pid_t tid) const {
  const auto status = tracee::read_status(tid);
  const auto pc = tracee::read_sleeping_pc(tid);
  const auto task = tasks_.find(tid);
  if (!status || status->state != 'D' || !pc || task == tasks_.end()) return false;
  const Image* image = task->second->process->image.get();
  return image == nullptr || !image->in_copy(*pc);
}

// Before anybody has to stand for it. What is inside of a trampoline's blob is needed until all do.
void Engine::restore_ahead(const std::set<pid_t>& pids) {
  for (pid_t pid : pids) {
    const auto process = processes_.find(pid);
    if (process == processes_.end() || process->second->image == nullptr) continue;
    Image& image = *process->second->image;
    if (image.trampolines() == nullptr) image.restore_code(mech::AddressSpace::Sites::but_signal_calls);
  }
}

// Stops every task of these processes, and of those that they make meanwhile, whose pids are added. The
// answer is whether all stand.
bool Engine::stop_all(std::set<pid_t>& pids, std::set<pid_t>& stopped) {
  const uint64_t deadline = now_ms() + kStopPatience;
  const bool everything = pids.size() == processes_.size();
  const bool elsewhere = tracee::may_run_elsewhere();
  for (int rounds = 0;;) {
    collect_births();
    if (everything)
      for (auto& [pid, process] : processes_) pids.insert(pid);
    std::vector<pid_t> waiting;
    for (auto& [tid, task] : tasks_)
      if (pids.contains(task->process->pid) && !stopped.contains(tid)) waiting.push_back(tid);
    if (waiting.empty() && births_.empty()) return true;
    if (now_ms() > deadline) return false;
    // A task in an uninterruptible sleep with our interrupt pending stops before it runs user code (a vfork
    // parent waits so, for a child that we hold).
    if (births_.empty() && ++rounds > kRounds &&
        std::all_of(waiting.begin(), waiting.end(), [&](pid_t tid) { return sleeps_outside_copies(tid); }))
      return true;
    // Each time anew: any other stop clears a pending interrupt (kernel/signal.c, ptrace_stop).
    for (pid_t tid : waiting) (void)tracee::interrupt(tid);
    for (pid_t tid : waiting) {
      const auto event = stop_of(tid, 1, elsewhere ? Awake::first : Awake::no);
      if (event && stopped_for_detach(*event)) stopped.insert(tid);
    }
  }
}

// A thread in a SIGTRAP's stop, peeked: one that has met a site stands on it again then, consumed, and will
// be seen when it meets it next. `regs` are those that it stands at.
Engine::Met Engine::back_to_site(const Task& task, arch::Regs& regs) {
  const pid_t tid = task.id.tid;
  const auto now = tracee::registers(tid);
  Image* image = task.process->image.get();
  const bool met =
      now && image != nullptr && (image->space().hit(*now) != nullptr || image->space().met_removed(*now));
  if (!met) return Met::nothing;
  // Where no handler stands the kernel would kill by what we leave to it.
  if (task.process->silent || !image->survival().stands()) (void)tracee::consume(tid, tracee::Block::no);
  regs = *now;
  regs.set_pc(arch::pc_at_breakpoint(*now));
  if (tracee::set_registers(tid, regs) == tracee::Alive::gone) return Met::gone;
  (void)tracee::consume(tid, tracee::Block::no);
  return Met::site;
}

// What a stop means on the way out; it is consumed where the task stands. False where the task runs on or has
// ended.
bool Engine::stopped_for_detach(const tracee::WaitEvent& event) {
  auto found = tasks_.find(event.tid);
  if (found == tasks_.end()) return false;
  Task& task = *found->second;
  take_records_of(task);
  const auto stop = tracee::classify(event.status);
  if (const auto* delivery = std::get_if<tracee::SignalDelivery>(&stop)) {
    // The program's to take first: its next stop is behind that.
    deliver(task, delivery->signal);
    return false;
  }
  if (std::holds_alternative<tracee::Trap>(stop)) {
    arch::Regs regs;
    const Met met = back_to_site(task, regs);
    if (met == Met::nothing) deliver(task, SIGTRAP);
    if (met != Met::site) return false;
    restore_trap_state(event.tid, task.process->trap, task.trap_blocked, Look::yes,
                       task.process->image->space(), stop_here(task, regs));
    return true;
  }
  if (std::holds_alternative<tracee::Interrupted>(stop) || std::holds_alternative<tracee::GroupStop>(stop)) {
    task.interrupted = true;
    if (!trap_is_pending(task)) return true;
    (void)tracee::resume(event.tid);
    return false;
  }
  if (event.status.is_end() || std::holds_alternative<tracee::NewTask>(stop) ||
      std::holds_alternative<tracee::Exec>(stop)) {
    std::visit([&](auto what) { on(task, what); }, stop);
    return false;
  }
  if (std::holds_alternative<tracee::SyscallStop>(stop)) let_kernel_restart(event.tid);
  (void)tracee::resume(event.tid);
  return false;
}

// A thread that has met an int3 but was stopped by us first still has its SIGTRAP to come: it must not
// outlive our int3.
bool Engine::trap_is_pending(const Task& task) const {
  const auto regs = tracee::registers(task.id.tid);
  Image* image = task.process->image.get();
  if (!regs || image == nullptr) return false;
  if (image->space().hit(*regs) == nullptr && !image->space().met_removed(*regs)) return false;
  const auto status = tracee::read_status(task.id.tid);
  return status && (status->pending & tracee::signal_bit(SIGTRAP)) != 0;
}

// Out of our copies.
void Engine::settle_registers(Task& task, Image& image) {
  auto regs = tracee::registers(task.id.tid);
  if (!regs) return;
  if (const auto begin = image.space().foothold().begins_anew_at(regs->pc()))
    (void)tracee::set_pc(task.id.tid, *begin);
  else if (image.space().to_program(*regs).changed)
    (void)tracee::set_registers(task.id.tid, *regs);
}

// Were we to die before the kernel resolves a pending restart, the program would see -ERESTART*.
void Engine::rewind(Task& task) {
  auto regs = tracee::registers(task.id.tid);
  if (!regs) return;
  task.rewound = tracee::rewind_interrupted_syscall(*regs);
  if (task.rewound) (void)tracee::set_registers(task.id.tid, *regs);
}

void Engine::release(pid_t tid, bool called) {
  const int owed = called ? tracee::stop_in_signal_path(tid) : 0;
  auto regs = tracee::registers(tid);
  const auto found = tasks_.find(tid);
  const bool rewound = found != tasks_.end() && found->second->rewound;
  bool changed = regs && rewound && tracee::undo_rewind(*found->second->rewound, *regs);
  changed |= regs && tracee::let_kernel_restart(*regs);
  if (changed) (void)tracee::set_registers(tid, *regs);
  (void)tracee::detach(tid, owed);
}

// An int3 goes at any time; a jump is more than one byte.
void Engine::clean_code(Image& image, bool all_stopped) {
  image.restore_code(mech::AddressSpace::Sites::all);
  image.space().lower_semaphores();
  mech::Trampolines* trampolines = image.trampolines();
  if (trampolines == nullptr) return;
  if (trampolines->begun()) trampolines->records().abandon();
  // Who is inside of one goes on to say when it has left.
  if (all_stopped)
    trampolines->restore(image.space().memory());
  else
    trampolines->fall_silent();
}

// The program's own code, whether or not all its tasks could be stopped; and neither handler nor page of
// ours, if none of them can need them.
// Else why not.
std::string Engine::clean_image(Image& image, const std::set<pid_t>& stopped, bool all_stopped,
                                std::set<pid_t>& called) {
  clean_code(image, all_stopped);
  if (!image.space().foothold().exists()) return {};
  std::vector<pid_t> own;
  for (pid_t tid : stopped)
    if (const auto task = tasks_.find(tid);
        task != tasks_.end() && task->second->process->image.get() == &image)
      own.push_back(tid);
  const std::string needed = image.why_pages_stay(own, all_stopped);
  std::string failure = "a thread could not be stopped";
  for (pid_t tid : stopped) {
    auto found = tasks_.find(tid);
    // The handler is the process's own; a vfork child has another.
    const bool fit = all_stopped && found != tasks_.end() && found->second->process->image.get() == &image &&
                     !found->second->process->silent && found->second->process->pid == image.space().pid();
    const auto regs = fit ? tracee::registers(tid) : std::nullopt;
    if (!regs || regs->never_in_program()) continue;
    failure = "a seccomp filter is in force";
    const tracee::Seccomp seccomp = tracee::seccomp_of(tid);
    if (seccomp == tracee::Seccomp::forbids) continue;
    tracee::remember_seccomp(tid, seccomp);  // nobody runs who could change it
    failure = "the thread could not make the system call";
    called.insert(tid);
    rewind(*found->second);
    if (!image.survival().lower(tid, image.space())) break;
    failure = needed.empty() ? image.space().unmap_copies(tid, image.find_slack()) : needed;
    break;
  }
  return failure;
}

// What was in the way may be gone a moment after the detach. Children that were forked until then have it
// too.
void Engine::clean_later(const std::map<pid_t, std::string>& failures) {
  for (auto [pid, failure] : failures) {
    try {
      const mech::Repaired repaired = mech::repair(pid, {}, false, kCleanLater);
      failure = repaired.left.empty() ? repaired.kept : repaired.left;
    } catch (const Error& error) {
      RTRACE_LOG(session, 1, "repair of {}: {}", pid, error.what());  // it has ended
      continue;
    }
    if (failure.empty()) continue;
    RTRACE_LOG(session, 1, "pages stay in {}: {}", pid, failure);
    reporter_.notice(
        fmt::format("process {}: {}, so that pages of rtrace stay mapped in it, unused", pid, failure));
  }
  if (failures.empty()) return;
  // All of them together are waited for no longer than one.
  const uint64_t deadline = now_ms() + kCleanLater.count();
  for (pid_t child : mech::find_session(services_.ledger.session())) {
    if (failures.contains(child) || processes_.contains(child)) continue;
    try {
      const uint64_t left = deadline - std::min(deadline, now_ms());
      (void)mech::repair(child, {}, false, std::chrono::milliseconds(left));
    } catch (const Error& error) {
      RTRACE_LOG(session, 1, "repair of {}: {}", child, error.what());  // it has ended
    }
  }
}

// They wake when what they wait for runs on, and stop once more for us.
void Engine::let_sleepers_go(const std::set<pid_t>& pids, const std::set<pid_t>& stopped) {
  for (const auto& [tid, task] : tasks_) {
    if (!pids.contains(task->process->pid) || stopped.contains(tid)) continue;
    const auto event = stop_of(tid, kWakeWait);
    if (!event) continue;
    const auto stop = tracee::classify(event->status);
    const auto* delivery = std::get_if<tracee::SignalDelivery>(&stop);
    (void)tracee::detach(tid, delivery != nullptr ? delivery->signal : 0);
  }
}

void Engine::detach(std::set<pid_t> pids) {
  std::set<pid_t> stopped;
  moment::enter(Moment::stop_all);
  restore_ahead(pids);
  const bool all_stopped = stop_all(pids, stopped);
  moment::enter(Moment::detach);
  for (pid_t tid : stopped) {
    auto found = tasks_.find(tid);
    if (found != tasks_.end()) take_records_of(*found->second);
    if (found != tasks_.end()) found->second->clock.halted(monotonic_now());
    if (found == tasks_.end() || found->second->process->image == nullptr) continue;
    settle_registers(*found->second, *found->second->process->image);
  }
  std::set<std::shared_ptr<Image>> images;
  for (pid_t pid : pids)
    if (auto process = processes_.find(pid); process != processes_.end() && process->second->image != nullptr)
      images.insert(process->second->image);
  std::map<pid_t, std::string> failures;
  std::set<pid_t> called;
  for (const auto& image : images)
    if (std::string failure = clean_image(*image, stopped, all_stopped, called); !failure.empty())
      failures.emplace(image->space().pid(), std::move(failure));
  // One that made calls for us has a stop more to go through: the others need not wait for it.
  for (pid_t tid : stopped)
    if (!called.contains(tid)) release(tid, false);
  for (pid_t tid : called) release(tid, true);
  let_sleepers_go(pids, stopped);
  for (pid_t pid : pids) {
    auto process = processes_.find(pid);
    if (process == processes_.end()) continue;
    take_all_records(*process->second);
    for (auto& [tid, task] : tasks_)
      if (task->process == process->second.get() && !task->process->silent) calls_.leave_open(*task);
    if (process->second->attached)
      reporter_.notice(fmt::format("detached from {} ({})", pid, process->second->name));
    end_process(*process->second);
  }
  clean_later(failures);
}

}  // namespace rtrace::session
