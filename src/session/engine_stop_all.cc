// Stopping all tasks of some processes so that these can be left: what their last stops mean.
#include <unistd.h>

#include <algorithm>

#include "engine_core.h"
#include "rtrace/base/log.h"
#include "rtrace/base/moment.h"
#include "rtrace/tracee/proc_fs.h"
#include "rtrace/tracee/thread.h"

namespace rtrace::session {
namespace {

// ms for all tasks together; one in an uninterruptible sleep may take longer and is left to the kernel
constexpr unsigned kStopPatience = 2000;
constexpr int kRounds = 5;        // of waiting a millisecond for each task
constexpr int kLeastRounds = 50;  // however long they take: the time may have been ours, standing still

// Not where one that has been let go of has begun another program, as the first thread.
bool is_traced(pid_t tid) {
  const auto status = tracee::read_status(tid);
  return status && status->tracer == getpid();
}

std::string describe(pid_t tid) {
  const auto status = tracee::read_status(tid);
  return status ? fmt::format("{} {} ({})", tid, status->name, status->state) : fmt::format("{} (gone)", tid);
}

}  // namespace

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
  const auto place = tracee::read_sleeping_place(tid);
  const auto task = tasks_.find(tid);
  if (!status || status->state != 'D' || !place || task == tasks_.end()) return false;
  const Image* image = task->second->process->image.get();
  return image == nullptr || !image->in_copy(place->pc);
}

// Tasks of these processes that are to be stopped. Some only when all others of their process have been: who
// makes calls then; and a first thread that is let go of, for another that begins a program does so under its
// tid.
std::vector<pid_t> Engine::to_be_stopped(const Leaving& leaving, How how, bool in_order) const {
  std::vector<pid_t> waiting, last;
  std::set<pid_t> with_others;
  for (const auto& [tid, task] : tasks_) {
    const Process& process = *task->process;
    if (!leaving.pids.contains(process.pid) || leaving.stopped.contains(tid) || leaving.over.contains(tid))
      continue;
    const bool settled =
        process.image == nullptr || !process.image->is_leaving() || leaving.settled.contains(tid);
    if (how == How::settle_each && settled) continue;
    const bool is_last = how == How::settle_each ? leaving.calls(process.pid, tid)
                                                 : how == How::let_go_each && tid == process.pid;
    (is_last ? last : waiting).push_back(tid);
    if (!is_last) with_others.insert(process.pid);
  }
  for (pid_t tid : last)
    if (!in_order || !with_others.contains(tasks_.at(tid)->process->pid)) waiting.push_back(tid);
  return waiting;
}

// The end of a first thread is told behind those of all others, and another may begin a program as it. True
// where something was told.
bool Engine::collect_ends(Leaving& leaving) {
  bool told = false;
  for (pid_t tid : std::exchange(leaving.over, {})) {
    const auto event = tasks_.contains(tid) ? tracee::stop_now(tid) : std::nullopt;
    queue_.forget(tid);
    if (event)
      (void)stopped_for_detach(*event);
    else
      leaving.over.insert(tid);
    told |= event.has_value();
  }
  return told;
}

bool Engine::leaves_all(const std::set<pid_t>& pids) const {
  return std::ranges::all_of(processes_, [&](const auto& process) { return pids.contains(process.first); });
}

// Stops every task of these processes, and of those that they make meanwhile, whose pids are added. The
// answer is whether all have been.
bool Engine::stop_all(Leaving& leaving, How how) {
  const uint64_t deadline = timestamp().monotonic / 1'000'000 + kStopPatience;
  const bool everything = leaves_all(leaving.pids);
  bool in_order = true;
  for (int rounds = 0, without_births = 0;; ++rounds) {
    collect_births();
    if (everything)
      for (auto& [pid, process] : processes_) leaving.pids.insert(pid);
    const std::vector<pid_t> waiting = to_be_stopped(leaving, how, in_order);
    if (waiting.empty() && births_.empty()) {
      if (collect_ends(leaving)) continue;
      return true;
    }
    if (rounds >= kLeastRounds && timestamp().monotonic / 1'000'000 > deadline) {
      for (pid_t tid : waiting) RTRACE_LOG(session, 1, "not stopped: {}", describe(tid));
      for (const auto& [tid, birth] : births_) RTRACE_LOG(session, 1, "not stopped: {}, new", describe(tid));
      return false;
    }
    // A task in an uninterruptible sleep with our interrupt pending stops before it runs user code (a vfork
    // parent waits so, for a child that we hold). The last of a process need not wait for it.
    const bool all_sleep =
        births_.empty() && ++without_births > kRounds &&
        std::all_of(waiting.begin(), waiting.end(), [&](pid_t tid) { return sleeps_outside_copies(tid); });
    if (all_sleep && !in_order) return true;
    in_order = !all_sleep;
    stop_each(leaving, how, waiting);
  }
}

// As far as they stop soon.
void Engine::stop_each(Leaving& leaving, How how, const std::vector<pid_t>& waiting) {
  const bool elsewhere = tracee::may_run_elsewhere();
  // Each time anew: any other stop clears a pending interrupt (kernel/signal.c, ptrace_stop).
  if (how == How::together)
    for (pid_t tid : waiting) (void)tracee::interrupt(tid);
  for (pid_t tid : waiting) {
    if (!tasks_.contains(tid)) continue;
    if (how != How::together) (void)tracee::interrupt(tid);
    const auto event = stop_of(tid, 1, elsewhere ? Awake::first : Awake::no);
    if (!event && tracee::is_zombie(tid)) leaving.over.insert(tid);
    if (!event && !is_traced(tid)) remove_task(*tasks_.at(tid));
    if (!event || !stopped_for_detach(*event)) continue;
    if (how == How::settle_each && settle_and_run(leaving, tid)) continue;
    leaving.stopped.insert(tid);
    const Image* image = tasks_.at(tid)->process->image.get();
    if (how == How::let_go_each && (image == nullptr || image->is_leaving())) let_go(leaving, tid);
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
  if (!is_caught(task, *image)) (void)tracee::consume(tid, tracee::Block::no);
  regs = *now;
  regs.set_pc(arch::pc_at_breakpoint(*now));
  if (tracee::set_registers(tid, regs) == tracee::Alive::gone) return Met::gone;
  (void)tracee::consume(tid, tracee::Block::no);
  return Met::site;
}

bool Engine::trapped_for_detach(Task& task) {
  const pid_t tid = task.id.tid;
  arch::Regs regs;
  const bool taken = taken_for_hit(tid);
  const Met met = back_to_site(task, regs);
  if (met == Met::nothing && keep_pending(task))
    (void)tracee::resume(tid, SIGTRAP);
  else if (met == Met::nothing)
    deliver(task, SIGTRAP);
  if (met != Met::site) return false;
  restore_trap(task, Look::yes, stop_here(task, regs));
  if (is_with_all(task.trap_blocked)) close_trap(tid);
  settle_signals(task, taken, std::nullopt);
  return true;
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
  if (std::holds_alternative<tracee::Trap>(stop)) return trapped_for_detach(task);
  if (std::holds_alternative<tracee::Interrupted>(stop) || std::holds_alternative<tracee::GroupStop>(stop)) {
    task.interrupted = true;
    task.listening = std::holds_alternative<tracee::GroupStop>(stop);
    if (!task.listening) let_kernel_restart(event.tid);  // at once: we may die while others are waited for
    if (!is_ours_pending(task)) return true;
    (void)tracee::resume(event.tid);
    return false;
  }
  if (event.status.is_end() || std::holds_alternative<tracee::NewTask>(stop) ||
      std::holds_alternative<tracee::Exec>(stop)) {
    std::visit([&](auto what) { on(task, what); }, stop);
    return false;
  }
  if (std::holds_alternative<tracee::SyscallStop>(stop)) {
    answer_awaited(task);
    let_kernel_restart(event.tid);
  }
  (void)tracee::resume(event.tid);
  return false;
}

// A thread that has met an int3 but was stopped by us first still has its SIGTRAP to come: it must not
// outlive our int3. Likewise the fault of a look of the recorder's, which is nobody's but ours to take.
bool Engine::is_ours_pending(const Task& task) const {
  const auto regs = tracee::registers(task.id.tid);
  Image* image = task.process->image.get();
  if (!regs || image == nullptr) return false;
  const mech::Foothold& foothold = image->space().foothold();
  uint64_t ours = 0;
  if (image->space().hit(*regs) != nullptr || image->space().met_removed(*regs))
    ours |= tracee::signal_bit(SIGTRAP);
  if (foothold.after_fault_at(regs->pc()) || foothold.reads_clock_at(regs->pc()))
    ours |= tracee::signal_bit(SIGSEGV) | tracee::signal_bit(SIGBUS);
  const auto status = ours != 0 ? tracee::read_status(task.id.tid) : std::nullopt;
  return status && (status->pending & ours) != 0;
}

}  // namespace rtrace::session
