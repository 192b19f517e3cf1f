// Letting go: every process runs on as if nothing had been.
#include <algorithm>
#include <cerrno>

#include "engine_core.h"
#include "repair_command.h"
#include "rtrace/base/log.h"
#include "rtrace/base/moment.h"
#include "rtrace/mech/repair.h"
#include "rtrace/tracee/proc_fs.h"
#include "rtrace/tracee/thread.h"

namespace rtrace::session {
namespace {

constexpr std::chrono::milliseconds kCleanLater(500);
constexpr unsigned kWakeWait = 50;  // ms

}  // namespace

void Engine::detach_all() {
  std::set<pid_t> all;
  for (auto& [pid, process] : processes_) all.insert(pid);
  detach(std::move(all));
}

// Before anybody has to stand for it. What is inside of a trampoline's blob is needed until all do.
void Engine::prepare_leaving(Leaving& leaving) {
  for (pid_t pid : leaving.pids) {
    const auto process = processes_.find(pid);
    if (process == processes_.end() || process->second->image == nullptr) continue;
    Image& image = *process->second->image;
    if (image.trampolines() == nullptr) image.restore_code(mech::AddressSpace::Sites::but_signal_calls);
    const auto tids = tracee::read_tasks(pid);
    const auto caller = std::ranges::find_if(tids, [&](pid_t tid) {
      const auto status = tasks_.contains(tid) ? tracee::read_status(tid) : std::nullopt;
      return status && status->state != 'Z' && !tracee::forbids_calls(tid);
    });
    if (caller != tids.end()) leaving.callers.emplace(pid, *caller);
  }
}

void Engine::settle(Task& task) {
  take_records_of(task);
  note_open_counts(task);
  count_inside(task);
  task.clock.halted(monotonic_now());
  settle_registers(task, *task.process->image);
}

// Out of our copies.
void Engine::settle_registers(Task& task, Image& image) {
  auto regs = tracee::registers(task.id.tid);
  if (!regs) return;
  if (const auto begin = image.space().foothold().begins_anew_at(regs->pc()))
    (void)tracee::set_pc(task.id.tid, *begin);
  else if (image.space().to_program(*regs).changed)
    (void)tracee::set_registers(task.id.tid, *regs);
  else if (clockless_.contains(task.process->pid) && image.space().foothold().reads_clock_at(regs->pc()))
    answer_clock(task, *regs);
}

// Were we to die before the kernel resolves a pending restart, the program would see -ERESTART*.
void Engine::rewind(Task& task) {
  auto regs = tracee::registers(task.id.tid);
  if (!regs) return;
  task.rewound = tracee::rewind_interrupted_syscall(*regs, tracee::restart_of(task.id.tid, *regs));
  if (task.rewound) (void)tracee::set_registers(task.id.tid, *regs);
}

// The thread goes on with its own system call as if it had not been interrupted.
void Engine::leave_restart_to_kernel(pid_t tid) {
  auto regs = tracee::registers(tid);
  const auto found = tasks_.find(tid);
  const bool rewound = found != tasks_.end() && found->second->rewound;
  bool changed = regs && rewound && tracee::undo_rewind(*found->second->rewound, *regs);
  changed |= regs && tracee::let_kernel_restart(*regs, tracee::restart_of(tid, *regs));
  if (changed) (void)tracee::set_registers(tid, *regs);
}

void Engine::release(pid_t tid, bool called) {
  const int owed = called ? tracee::stop_in_signal_path(tid) : 0;
  leave_restart_to_kernel(tid);
  const auto found = tasks_.find(tid);
  if (found != tasks_.end() && is_with_all(found->second->trap_blocked)) close_trap(tid);
  (void)tracee::detach(tid, owed);
}

void Engine::let_go(Leaving& leaving, pid_t tid) {
  if (leaving.gone.insert(tid).second) release(tid, leaving.called.contains(tid));
}

// An int3 goes at any time; a jump is more than one byte.
void Engine::clean_code(Image& image, bool all_stopped) {
  image.restore_code(mech::AddressSpace::Sites::all);
  image.space().lower_semaphores();
  mech::Trampolines* trampolines = image.trampolines();
  if (trampolines == nullptr) return;
  if (trampolines->begun()) trampolines->records().abandon();
  // Who is inside of one goes on to say when it has left, but looks at no clock that it needs us for.
  if (all_stopped) trampolines->restore(image.space().memory());
  if (!all_stopped || clockless_.contains(image.pid())) trampolines->fall_silent();
}

// A thread for the calls that take out what is ours, while all stand.
std::optional<pid_t> Engine::choose_caller(const Leaving& leaving, const Image& image, std::string& failure) {
  const auto fit = [&](pid_t tid) {
    const auto found = tasks_.find(tid);
    // The handler is the process's own; a vfork child has another.
    if (found == tasks_.end() || found->second->process->image.get() != &image ||
        found->second->process->silent || found->second->process->pid != image.pid())
      return false;
    const auto regs = tracee::registers(tid);
    return regs && !regs->never_in_program();
  };
  failure = "a thread could not be stopped";
  const auto ahead = leaving.callers.find(image.pid());
  if (ahead != leaving.callers.end() && leaving.stopped.contains(ahead->second) && fit(ahead->second))
    return ahead->second;
  for (pid_t tid : leaving.stopped) {
    if (!fit(tid)) continue;
    if (!tracee::forbids_calls(tid)) return tid;
    failure = "a seccomp filter is in force";
  }
  return std::nullopt;
}

// The program's own code, whether or not all its tasks could be stopped. What else there is to do in the
// process takes calls.
Engine::Farewell Engine::clean_image(const std::shared_ptr<Image>& image, const Leaving& leaving,
                                     bool all_stopped) {
  clean_code(*image, all_stopped);
  image->begin_leaving();
  Farewell farewell{image};
  if (!image->space().foothold().exists()) return farewell;
  std::vector<pid_t> own;
  for (pid_t tid : leaving.stopped)
    if (const auto task = tasks_.find(tid); task != tasks_.end() && task->second->process->image == image)
      own.push_back(tid);
  farewell.needed = image->why_pages_stay(own, all_stopped);
  farewell.failure = "a thread could not be stopped";
  if (all_stopped) farewell.caller = choose_caller(leaving, *image, farewell.failure);
  return farewell;
}

void Engine::take_pages_out(Leaving& leaving, const Farewell& farewell) {
  if (std::string failure = failure_of_calls(leaving, farewell); !failure.empty())
    leaving.failures.emplace(farewell.image->pid(), std::move(failure));
}

// Of a task that stands.
void Engine::note_open_counts(Task& task) const {
  if (!has_lent_pointer(task)) task.open_counts = task.process->image->open_counts(task.id.tid);
}

// No call of the task's returns any more. Behind close_counts() those count that were open then. Once the
// process has ended its memory cannot be looked at.
void Engine::about_to_end(pid_t tid) const {
  const auto found = tasks_.find(tid);
  if (found == tasks_.end()) return;
  const Process& process = *found->second->process;
  if (process.image == nullptr || process.silent) return;
  if (services_.recording == agent::Mode::count && !process.image->counts_are_closed())
    note_open_counts(*found->second);
  if (tid == process.pid) process.image->about_to_end();
}

// A call that is told as open is not to count as one that returned, too: what is counted is handed on while
// all stand. Where they do not, none is told as open.
void Engine::close_counts(const std::set<std::shared_ptr<Image>>& images, bool all_stopped) {
  for (const auto& [pid, process] : processes_)
    if (all_stopped && images.contains(process->image)) hand_on_counts(*process, nullptr);
  for (const auto& image : images)
    if (all_stopped) image->close_counts();
  for (const auto& [tid, task] : tasks_)
    if (!all_stopped && images.contains(task->process->image)) task->open_counts.clear();
}

// Neither handler nor page of ours, if nobody can need them. Else why not.
std::string Engine::failure_of_calls(Leaving& leaving, const Farewell& farewell) {
  Image& image = *farewell.image;
  const std::string kept = lower_in_borrowers(leaving, image);
  if (!farewell.caller) return farewell.failure;
  const pid_t tid = *farewell.caller;
  if (tracee::forbids_calls(tid)) return "a seccomp filter is in force";
  if (const auto task = tasks_.find(tid); task != tasks_.end()) rewind(*task->second);
  if (!image.survival().leave(tid, image.space())) return "the thread could not make the system call";
  if (std::string failure = close_handlers_at_last(leaving, image, tid); !failure.empty()) return failure;
  if (!kept.empty()) return kept;
  if (farewell.needed.empty()) return image.space().unmap_copies(tid, image.find_slack());
  image.space().forget_table();
  if (const std::string failure = image.part_wrapping(tid); !failure.empty())
    RTRACE_LOG(session, 1, "pages stay in {}, shared: {}", image.pid(), failure);
  return farewell.needed;
}

// Its code is its own again: it need not wait for a caller's calls. In a group-stop it stands anyway.
void Engine::run_on(Leaving& leaving, pid_t tid) {
  leave_restart_to_kernel(tid);
  tasks_.at(tid)->interrupted = false;
  (void)tracee::resume(tid);
  leaving.stopped.erase(tid);
}

bool Engine::let_others_run(Leaving& leaving, const std::set<pid_t>& callers) {
  std::vector<pid_t> others;
  for (pid_t tid : leaving.stopped) {
    const auto task = tasks_.find(tid);
    if (task == tasks_.end() || callers.contains(tid) || leaving.called.contains(tid) ||
        task->second->listening)
      continue;
    const Image* image = task->second->process->image.get();
    if (image == nullptr || !is_to_be_lowered(leaving, *task->second, *image)) others.push_back(tid);
  }
  for (pid_t tid : others) run_on(leaving, tid);
  return !others.empty();
}

// False where it is to stand.
bool Engine::settle_and_run(Leaving& leaving, pid_t tid) {
  Task& task = *tasks_.at(tid);
  settle(task);
  if (task.listening || leaving.calls(task.process->pid, tid)) return false;
  const Image* image = task.process->image.get();
  if (image != nullptr && is_to_be_lowered(leaving, task, *image)) return false;
  leaving.settled.insert(tid);
  const bool clean = image != nullptr && image->is_leaving();
  if (clean && is_with_all(task.trap_blocked)) close_trap(tid);  // no int3 stands any more
  run_on(leaving, tid);
  return true;
}

// Through the path of signals, where the kernel resolves a pending restart: each stops there at once.
void Engine::let_callers_run(Leaving& leaving, const std::set<pid_t>& callers) {
  for (pid_t tid : callers) {
    leaving.stopped.erase(tid);
    if (left_its_stop(tid)) continue;
    leave_restart_to_kernel(tid);
    (void)tracee::interrupt(tid);
    (void)tracee::resume(tid);
  }
}

std::set<std::shared_ptr<Image>> Engine::images_to_leave(const Leaving& leaving) const {
  std::set<std::shared_ptr<Image>> images;
  for (pid_t pid : leaving.pids) {
    const auto process = processes_.find(pid);
    const auto image = process != processes_.end() ? process->second->image : nullptr;
    if (image != nullptr && !image->is_leaving()) images.insert(image);
  }
  return images;
}

// Where no code of several bytes is ours nobody has to wait for another: when each thread has been in its own
// code, with no int3 of ours in it, none is in a copy any more.
Engine::Visited Engine::leave_each(Leaving& leaving) {
  std::vector<Farewell> farewells;
  for (const auto& image : images_to_leave(leaving)) {
    if (image->needs_all_stopped() || Survival::are_handlers_open(image->space())) continue;
    clean_code(*image, true);
    image->begin_leaving();
    farewells.push_back({image});
  }
  if (farewells.empty()) return Visited::all_stand;
  moment::enter(Moment::stop_all);
  const bool all = stop_all(leaving, How::settle_each);
  moment::enter(Moment::detach);
  std::set<pid_t> callers;
  for (Farewell& farewell : farewells) {
    if (!farewell.image->space().foothold().exists()) continue;
    farewell.failure = "a thread could not be stopped";
    if (all) farewell.caller = choose_caller(leaving, *farewell.image, farewell.failure);
    if (farewell.caller) callers.insert(*farewell.caller);
    take_pages_out(leaving, farewell);
  }
  let_callers_run(leaving, callers);
  return Visited::some_run;
}

// Stops all, and takes out what is ours. While that takes calls, those that were stopped together are let
// run: they are to be visited once more, for what they did meanwhile. One that asks for the action of SIGTRAP
// then may find our handler, which it can only lead to an end, as the default does.
Engine::Visited Engine::visit(Leaving& leaving, How how) {
  moment::enter(Moment::stop_all);
  const bool all_stopped = stop_all(leaving, how);
  moment::enter(Moment::detach);
  const auto images = images_to_leave(leaving);
  for (pid_t tid : leaving.stopped) {
    auto found = tasks_.find(tid);
    if (found != tasks_.end() && images.contains(found->second->process->image)) settle(*found->second);
  }
  close_counts(images, all_stopped);
  std::vector<Farewell> farewells;
  for (const auto& image : images) farewells.push_back(clean_image(image, leaving, all_stopped));
  std::set<pid_t> callers;
  for (const Farewell& farewell : farewells)
    if (farewell.caller) callers.insert(*farewell.caller);
  // Nobody may be about to write to what is parted, nor to set an action while handlers are closed, nor to
  // ask for one that ours stands in front of.
  const bool parts = std::ranges::any_of(farewells, [](const Farewell& left) {
    return Survival::are_handlers_open(left.image->space()) || left.image->survival().screens() ||
           (!left.needed.empty() && left.image->records_calls());
  });
  const bool run = how == How::together && !parts && !callers.empty() && let_others_run(leaving, callers);
  for (const Farewell& farewell : farewells) take_pages_out(leaving, farewell);
  if (run)
    let_callers_run(leaving, callers);
  else
    leaving.called.merge(callers);
  return run ? Visited::some_run : Visited::all_stand;
}

// What was in the way may be gone a moment after the detach. Children that were forked until then have it
// too.
void Engine::clean_later(const std::map<pid_t, std::string>& failures) {
  if (failures.empty()) return;
  std::map<pid_t, std::vector<mech::ForeignBytes>> known;
  for (const auto& [pid, failure] : failures) known[pid];
  const auto children = [this] {
    auto pids = mech::find_sessions({services_.ledger.session()});
    std::erase_if(pids, [this](pid_t pid) { return processes_.contains(pid); });
    return pids;
  };
  std::map<std::string, std::vector<pid_t>> stays;
  for (const auto& [pid, outcome] : mech::repair_all(std::move(known), children, {.patience = kCleanLater})) {
    if (!outcome.failure.empty()) RTRACE_LOG(session, 1, "repair of {}: {}", pid, outcome.failure);
    const std::string& why = outcome.repaired.left.empty() ? outcome.repaired.kept : outcome.repaired.left;
    if (!why.empty()) stays[why].push_back(pid);
  }
  for (const auto& [why, pids] : stays) {
    const std::string words = describe_staying_pages(pids, why);
    RTRACE_LOG(session, 1, "{}", words);
    if (is_alone())
      say_alone(words);
    else
      reporter_.notice(words);
  }
}

// They wake when what they wait for runs on, and stop once more for us.
void Engine::let_sleepers_go(const std::set<pid_t>& pids, const std::set<pid_t>& stopped) {
  std::vector<tracee::WaitEvent> ends;
  for (const auto& [tid, task] : tasks_) {
    if (!pids.contains(task->process->pid) || stopped.contains(tid)) continue;
    const auto event = stop_of(tid, kWakeWait);
    if (event && event->status.is_end()) ends.push_back(*event);
    if (!event || event->status.is_end()) continue;
    const auto stop = tracee::classify(event->status);
    const auto* delivery = std::get_if<tracee::SignalDelivery>(&stop);
    if (std::holds_alternative<tracee::Interrupted>(stop)) leave_restart_to_kernel(tid);
    if (is_with_all(task->trap_blocked)) close_trap(tid);
    (void)tracee::detach(tid, delivery != nullptr ? delivery->signal : 0);
  }
  for (const auto& end : ends) handle(end);
}

void Engine::detach(std::set<pid_t> pids) {
  Leaving leaving;
  leaving.pids = std::move(pids);
  close_all_handlers(leaving.pids);
  prepare_leaving(leaving);
  Visited visited = leave_each(leaving);
  if (!images_to_leave(leaving).empty() || visited == Visited::all_stand)
    visited = visit(leaving, How::together);
  if (visited == Visited::some_run) (void)visit(leaving, How::let_go_each);
  // One that made calls for us has a stop more to go through: the others need not wait for it.
  for (pid_t tid : leaving.stopped)
    if (!leaving.called.contains(tid)) let_go(leaving, tid);
  for (pid_t tid : leaving.called) let_go(leaving, tid);
  let_sleepers_go(leaving.pids, leaving.stopped);
  for (pid_t pid : leaving.pids) {
    if (const auto before = left_before_.extract(pid)) leaving.failures.insert({pid, before.mapped()});
    auto process = processes_.find(pid);
    if (process == processes_.end()) continue;
    take_all_records(*process->second);
    for (auto& [tid, task] : tasks_) {
      if (task->process != process->second.get() || task->process->silent) continue;
      syscalls_.leave_open(*task);
      calls_.leave_open(*task);
    }
    if (process->second->attached)
      reporter_.notice(fmt::format("detached from {} ({})", pid, process->second->name));
    end_process(*process->second);
  }
  clean_later(leaving.failures);
}

// At an exec. It goes on in the memory of another process where that shares it.
void Engine::abandon_image(const Process& process) const {
  const auto shares = [&](const auto& other) {
    return other.second.get() != &process && other.second->image == process.image;
  };
  if (process.image != nullptr && std::ranges::none_of(processes_, shares)) process.image->space().abandon();
}

}  // namespace rtrace::session
