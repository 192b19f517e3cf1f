#include "halted.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

#include "rtrace/base/error.h"
#include "rtrace/base/moment.h"
#include "rtrace/tracee/interrupted_syscall.h"
#include "rtrace/tracee/proc_fs.h"
#include "rtrace/tracee/seizing.h"
#include "rtrace/tracee/thread.h"

namespace rtrace::mech {
namespace {

constexpr auto kPatience = std::chrono::seconds(2);
constexpr unsigned kStepWait = 2000;   // ms
constexpr unsigned kFirstStop = 3000;  // ms, for a child to come to its first stop

bool sleeps(pid_t tid) {
  const auto status = tracee::read_status(tid);
  return status && status->state == 'D';
}

}  // namespace

HaltedProcess::HaltedProcess(const tracee::ProcessMemory& memory, const std::unordered_set<VirtAddr>& sites,
                             const Remains& remains)
    : pid_(memory.pid()), memory_(memory), sites_(sites), remains_(remains) {
  try {
    seize_all();
    all_stopped_ = stop_all();
  } catch (const Error&) {
    let_go();
    throw;
  }
}

HaltedProcess::~HaltedProcess() {
  let_go();
}

// A thread that is created meanwhile is ours already, or appears in the folder.
void HaltedProcess::seize_all() {
  tracee::Seizing seizing(pid_);
  for (bool found = true; found;) {
    found = false;
    for (pid_t tid : tracee::read_tasks(pid_)) {
      if (tasks_.contains(tid)) continue;
      const int error_number = seizing.seize(tid);
      if (error_number == ESRCH) continue;
      if (error_number != 0) {
        const auto status = tracee::read_status(tid);
        if (!status || status->state == 'Z' || status->state == 'X') continue;
        if (status->tracer != getpid()) throw Error::make("process {}: {}", pid_, strerror(error_number));
      }
      tasks_[tid] = State::running;
      found = true;
    }
  }
  for (const tracee::WaitEvent& ended : seizing.take_ended()) tasks_.erase(ended.tid);
  if (tasks_.empty()) throw Error::make("process {}: no such process", pid_);
}

bool HaltedProcess::stop_all() {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  do {
    seize_all();
    if (ask_running()) return true;
  } while (std::chrono::steady_clock::now() < deadline);
  // In an uninterruptible sleep with our interrupt pending, it stops before it runs user code.
  return std::all_of(tasks_.begin(), tasks_.end(),
                     [](const auto& task) { return task.second != State::running || sleeps(task.first); });
}

// True where none runs.
bool HaltedProcess::ask_running() {
  std::vector<pid_t> waiting;
  for (const auto& [tid, state] : tasks_)
    if (state == State::running) waiting.push_back(tid);
  // Each time anew: any other stop clears a pending interrupt (kernel/signal.c, ptrace_stop).
  for (pid_t tid : waiting) (void)tracee::interrupt(tid);
  for (pid_t tid : waiting)
    if (!ask(tid)) tasks_.erase(tid);
  return waiting.empty();
}

// False where the task has ended.
bool HaltedProcess::ask(pid_t tid) {
  const auto event = tracee::stop_within(tid, 1);
  if (!event) return tracee::read_status(tid).has_value();
  if (event->status.is_end()) return false;
  tasks_[tid] = classify(tid, tracee::classify(event->status));
  return true;
}

bool HaltedProcess::met_site(pid_t tid, VirtAddr* site) const {
  const auto regs = tracee::registers(tid);
  if (!regs) return false;
  *site = regs->pc() - 1;
  return sites_.contains(*site);
}

// The kernel makes a SIGTRAP of the stop that a tracer has not lived to answer: of a system call
// (kernel: include/linux/ptrace.h, ptrace_report_syscall), of a hit whose registers were written already, of
// a step. A program's own int3 leaves its pc behind one, but not in our pages, where a copy may end in an
// int3 before the next, nor on a site, which may have padding before it.
bool HaltedProcess::is_left_over(pid_t tid) const {
  const auto info = tracee::signal_info(tid);
  const auto regs = tracee::registers(tid);
  if (!info || !regs) return false;
  if (info->si_code == SI_USER && info->si_pid == 0) return true;
  if (info->si_code == TRAP_TRACE) return !may_step_itself(tid);
  std::byte before{};
  const bool read = memory_.read_forced(regs->pc() - 1, {&before, 1}) == 1;
  // Of a system call, but for an icebp (arch/x86/kernel/ptrace.c, user_single_step_report).
  if (info->si_code == TRAP_BRKPT) return before != std::byte{0xf1} && !may_step_itself(tid);
  if (info->si_code != SI_KERNEL) return false;
  const auto holds_pc = [&](const auto& page) { return page.range.contains(regs->pc()); };
  if (sites_.contains(regs->pc()) || std::ranges::any_of(remains_.pages, holds_pc)) return true;
  return !read || before != std::byte{0xcc};
}

// It has a handler, which ours stood in front of; and no tracer held the thread's signals back for a step.
bool HaltedProcess::may_step_itself(pid_t tid) const {
  return std::ranges::any_of(remains_.blobs, [&](const Remains::Blob& blob) {
    return blob.has_own_handler() && blob.head.masked_thread != tracee::own_tid(tid);
  });
}

HaltedProcess::State HaltedProcess::consumed(pid_t tid) {
  (void)tracee::consume(tid, tracee::Block::no);
  return State::stopped;
}

HaltedProcess::State HaltedProcess::classify(pid_t tid, const tracee::Stop& stop) {
  VirtAddr site;
  const bool met = met_site(tid, &site);
  if (std::holds_alternative<tracee::Trap>(stop)) {
    if (met) {
      auto regs = tracee::registers(tid);
      if (regs) regs->set_pc(site);
      if (regs && tracee::set_registers(tid, *regs) == tracee::Alive::yes) return consumed(tid);
    }
    if (is_left_over(tid)) return consumed(tid);
    (void)tracee::resume(tid, SIGTRAP);
    return State::running;
  }
  const bool group_stop = std::holds_alternative<tracee::GroupStop>(stop);
  if (group_stop || std::holds_alternative<tracee::Interrupted>(stop)) {
    if (!group_stop) settle(tid);  // at once: we may die while others are waited for
    // One that has met an int3 still has its SIGTRAP to come: it must not find the handler gone.
    const auto status = tracee::read_status(tid);
    const uint64_t due = status ? status->pending & ~status->blocked : 0;
    if ((due & tracee::signal_bit(SIGTRAP)) == 0)
      return group_stop ? State::group_stopped : State::interrupted;
  }
  const auto* delivery = std::get_if<tracee::SignalDelivery>(&stop);
  if (std::holds_alternative<tracee::NewTask>(stop)) on_child(tid);
  (void)tracee::resume(tid, delivery != nullptr ? delivery->signal : 0);
  return State::running;
}

void HaltedProcess::on_child(pid_t parent) {
  const auto message = tracee::event_message(parent);
  const auto child = static_cast<pid_t>(message.value_or(0));
  const auto status = child != 0 ? tracee::read_status(child) : std::nullopt;
  if (!status || status->tgid == pid_) return;  // gone, or a thread: seize_all() finds it
  // vfork's parent waits for it, in whichever memory it runs; clone(2) shows as what its flags look like.
  if (!tracee::share_memory(child, pid_)) {
    children_.push_back(child);
    return;
  }
  if (tracee::consume_within(child, kFirstStop)) (void)tracee::detach(child);
}

std::vector<pid_t> HaltedProcess::stopped() const {
  std::vector<pid_t> tids;
  for (const auto& [tid, state] : tasks_)
    if (state != State::running) tids.push_back(tid);
  return tids;
}

std::optional<pid_t> HaltedProcess::fit() {
  for (State wanted : {State::stopped, State::interrupted, State::group_stopped}) {
    for (const auto& [tid, state] : tasks_) {
      if (state != wanted || owed_.contains(tid) || tracee::forbids_calls(tid)) continue;
      const auto regs = tracee::registers(tid);
      if (regs && !regs->never_in_program()) return fit_ = tid;
    }
  }
  return std::nullopt;
}

std::optional<tracee::WaitEvent> HaltedProcess::step(pid_t tid) {
  if (tracee::step(tid) == tracee::Alive::gone) return std::nullopt;
  moment::enter(Moment::stepping);
  auto event = tracee::consume_within(tid, kStepWait);
  if (event || tracee::interrupt(tid) == tracee::Alive::gone) return event;
  (void)tracee::consume_within(tid, kStepWait);
  return std::nullopt;
}

// A system call that our interrupt has ended with EINTR is issued again, unless a signal of the program's own
// comes first.
void HaltedProcess::settle(pid_t tid) {
  auto regs = tracee::registers(tid);
  if (regs && tracee::let_kernel_restart(*regs, tracee::restart_of(tid, *regs)))
    (void)tracee::set_registers(tid, *regs);
}

// False where it runs.
bool HaltedProcess::release(pid_t tid, State state) {
  if (state == State::running) return false;
  if (const auto owed = owed_.find(tid); owed != owed_.end())
    return tracee::detach(tid, owed->second) == tracee::Alive::yes;
  const int signal = tid == fit_ ? tracee::stop_in_signal_path(tid) : 0;
  if (state == State::interrupted) settle(tid);
  return tracee::detach(tid, signal) == tracee::Alive::yes;
}

// One that stayed ours would stop at its next signal for nobody, and its process would not end before we had
// waited for it.
void HaltedProcess::let_go() {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  do {
    (void)ask_running();
    for (auto task = tasks_.begin(); task != tasks_.end();) {
      const bool released = release(task->first, task->second);
      task->second = State::running;
      task = released ? tasks_.erase(task) : std::next(task);
    }
  } while (!tasks_.empty() && std::chrono::steady_clock::now() < deadline);
}

}  // namespace rtrace::mech
