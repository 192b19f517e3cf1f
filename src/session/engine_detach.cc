// Letting go: every process runs on as if nothing had been.
#include <algorithm>
#include <cerrno>
#include <set>

#include "engine_core.h"
#include "rtrace/base/log.h"
#include "rtrace/tracee/proc_fs.h"
#include "rtrace/tracee/thread.h"

namespace rtrace::session {
namespace {

constexpr unsigned kPatience = 2000;   // ms for all tasks together; one in an uninterruptible sleep may take
                                       // longer and is left to the kernel
constexpr unsigned kDrainWait = 1000;  // ms for a signal that is pending already

uint64_t milliseconds() {
  return timestamp().monotonic / 1'000'000;
}

}  // namespace

// Stops and lets go of the tasks of these processes. Fork children that appear meanwhile are cleaned and
// freed like any other.
void Engine::detach_all() {
  std::vector<Process*> all;
  for (auto& [pid, process] : processes_) all.push_back(process.get());
  detach(all);
}

bool Engine::stop_all(const std::vector<Process*>& processes, std::map<pid_t, int>& stopped) {
  const uint64_t deadline = milliseconds() + kPatience;
  std::set<pid_t> asked;
  for (;;) {
    std::vector<pid_t> waiting;
    for (auto& [tid, task] : tasks_) {
      if (std::find(processes.begin(), processes.end(), task->process) == processes.end() ||
          stopped.contains(tid))
        continue;
      if (asked.insert(tid).second) (void)tracee::interrupt(tid);
      waiting.push_back(tid);
    }
    if (waiting.empty()) return true;
    if (milliseconds() > deadline) return false;
    for (pid_t tid : waiting) {
      const auto event = tracee::consume_within(tid, 1);
      queue_.forget(tid);
      int signal = 0;
      if (event && stopped_for_detach(*event, signal)) stopped[tid] = signal;
    }
  }
}

// What a consumed stop means on the way out. False where the task runs on (and will stop for our interrupt)
// or has ended.
bool Engine::stopped_for_detach(const tracee::WaitEvent& event, int& signal) {
  auto found = tasks_.find(event.tid);
  if (found == tasks_.end()) return false;
  Task& task = *found->second;
  const auto stop = tracee::classify(event.status);
  if (const auto* delivery = std::get_if<tracee::SignalDelivery>(&stop)) {
    signal = delivery->signal;
    return true;
  }
  if (std::holds_alternative<tracee::Trap>(stop)) {
    auto regs = tracee::registers(event.tid);
    Image* image = task.process->image.get();
    const mech::BreakpointSite* site = regs && image != nullptr ? image->space().hit(*regs) : nullptr;
    if (site == nullptr) {
      signal = SIGTRAP;
      return true;
    }
    regs->set_pc(site->address);
    return tracee::set_registers(event.tid, *regs) == tracee::Alive::yes;
  }
  if (std::holds_alternative<tracee::Interrupted>(stop) || std::holds_alternative<tracee::GroupStop>(stop)) {
    task.interrupted = true;
    return true;
  }
  if (event.status.is_end() || std::holds_alternative<tracee::NewTask>(stop) ||
      std::holds_alternative<tracee::Exec>(stop)) {
    std::visit([&](auto what) { on(task, what); }, stop);
    return false;
  }
  (void)tracee::resume(event.tid);
  return false;
}

// A thread that has met an int3 but was stopped by us first still has its SIGTRAP to come: it must not
// outlive our int3.
void Engine::drain_trap(Task& task, Image& image) {
  auto regs = tracee::registers(task.id.tid);
  if (!regs || image.space().hit(*regs) == nullptr) return;
  const auto status = tracee::read_status(task.id.tid);
  if (!status || (status->pending & tracee::signal_bit(SIGTRAP)) == 0) return;
  if (tracee::resume(task.id.tid) == tracee::Alive::gone) return;
  const auto event = tracee::consume_within(task.id.tid, kDrainWait);
  int signal = 0;
  if (event) (void)stopped_for_detach(*event, signal);
}

void Engine::settle_registers(Task& task, Image& image) {
  auto regs = tracee::registers(task.id.tid);
  if (!regs) return;
  bool changed = image.space().to_program(*regs).changed;
  if (task.interrupted && static_cast<int64_t>(regs->raw.rax) == -EINTR) {
    const auto status = tracee::read_status(task.id.tid);
    // With a signal of its own on the way, the EINTR is the program's.
    if (status && ((status->pending | status->shared_pending) & ~status->blocked) == 0)
      changed |= tracee::rewind_interrupted_syscall(*regs).has_value();
  }
  if (changed) (void)tracee::set_registers(task.id.tid, *regs);
}

void Engine::detach(const std::vector<Process*>& processes) {
  std::map<pid_t, int> stopped;
  const bool all = stop_all(processes, stopped);
  std::map<Image*, pid_t> images;  // with a task that can make a remote call
  for (const auto& [tid, signal] : stopped) {
    auto found = tasks_.find(tid);
    if (found == tasks_.end()) continue;
    Task& task = *found->second;
    Image* image = task.process->image.get();
    if (image == nullptr) continue;
    if (signal == 0) drain_trap(task, *image);
    settle_registers(task, *image);
    if (signal == 0 || !images.contains(image)) images[image] = tid;
  }
  for (auto& [image, tid] : images) {
    image->space().restore(image->space().memory());
    // A thread that is still on its way could be inside a copy: then the pages stay, inert.
    const std::string failure =
        all && stopped[tid] == 0 ? image->space().unmap_copies(tid, image->find_slack()) : "a thread is busy";
    if (!failure.empty()) RTRACE_LOG(session, 1, "copies stay mapped: {}", failure);
  }
  for (const auto& [tid, signal] : stopped) (void)tracee::detach(tid, signal);
  for (Process* process : processes) {
    const bool alive = std::any_of(stopped.begin(), stopped.end(), [&](const auto& entry) {
      auto task = tasks_.find(entry.first);
      return task != tasks_.end() && task->second->process == process;
    });
    if (alive && process->attached)
      reporter_.notice(fmt::format("detached from {} ({})", process->pid, process->name));
  }
  std::vector<pid_t> pids;
  for (Process* process : processes) pids.push_back(process->pid);
  for (pid_t pid : pids)
    if (auto process = processes_.find(pid); process != processes_.end()) end_process(*process->second);
}

}  // namespace rtrace::session
