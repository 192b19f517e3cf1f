// The program's actions that are other than it has set them while int3s of ours stand: handlers that block
// all signals run with SIGTRAP open, and SIGTRAP that several threads ignore has its default.
#include <fmt/format.h>
#include <sys/syscall.h>

#include <algorithm>
#include <csignal>
#include <ctime>
#include <utility>

#include "engine_core.h"
#include "rtrace/base/log.h"
#include "rtrace/mech/handler_masks.h"
#include "rtrace/tracee/proc_fs.h"
#include "rtrace/tracee/thread.h"

namespace rtrace::session {

constexpr unsigned kMostSignals = 64;

// What whoever comes after us, or after a fork, is to give back.
void Engine::note_withheld(const Process& process) {
  if (process.image->pid() != process.pid) return;
  const mech::AddressSpace& space = process.image->space();
  const uint64_t others = space.foothold().open_handlers(space.memory()) & ~tracee::signal_bit(SIGTRAP);
  space.foothold().note_open_handlers(space.memory(),
                                      others | (process.trap.withheld ? tracee::signal_bit(SIGTRAP) : 0));
}

void Engine::tell_of_default(const Process& process) {
  reporter_.say(fmt::format("process {} ({}) was to ignore SIGTRAP, and does not: no call can be made in it",
                            process.pid, process.name));
}

// Of a new program that stands before its first instruction: what was ignored stays so (execve(2)), also
// where the kernel had the default for our sake.
void Engine::ignore_trap_again(Process& process) {
  mech::AddressSpace& space = process.image->space();
  if (!space.foothold().exists()) return tell_of_default(process);
  process.trap = {TrapDisposition::Kind::ignored, false, {}, true};
  note_withheld(process);
  (void)process.image->survival().leave(process.pid, space);
  process.image->survival().program_set(TrapDisposition::Kind::ignored, space);
  process.trap.withheld = false;
}

static bool opens_handlers(const Process& process) {
  return process.image != nullptr && process.image->survival().opens_handlers() &&
         process.trap.kind == TrapDisposition::Kind::standard;
}

// Whether sigaction() sets a handler that blocks all signals, or is about one that we have opened.
bool Engine::is_about_open_handler(const Task& task, Image& image, SignalCall::Kind kind,
                                   const arch::Regs& regs) {
  constexpr uint64_t kMask = 8;  // in the C library's struct sigaction too, behind the handler
  const auto signal = static_cast<unsigned>(regs.integer_argument(0));
  if (kind != SignalCall::Kind::sigaction || image.pid() != task.process->pid || signal == 0 ||
      signal > kMostSignals || signal == SIGTRAP)
    return false;
  const tracee::ProcessMemory& memory = image.space().memory();
  if ((image.space().foothold().open_handlers(memory) & agent::bit_of_signal(signal)) != 0) return true;
  const VirtAddr given{regs.integer_argument(1)};
  const auto mask = given ? memory.read_value<uint64_t>(given + kMask) : std::nullopt;
  return mask && agent::blocks_all(*mask) && opens_handlers(*task.process);
}

// There, or at its end.
void Engine::at_handler_call(Task& task, const arch::Regs& regs, tracee::SyscallInfo::Moment moment) {
  Process& process = *task.process;
  const mech::AddressSpace& space = process.image->space();
  const mech::Foothold& foothold = space.foothold();
  if (regs.raw.orig_rax != SYS_rt_sigaction || process.image->pid() != process.pid) return;
  const uint64_t open = foothold.open_handlers(space.memory());
  if (moment == tracee::SyscallInfo::Moment::entry) {
    const uint64_t opened = opens_handlers(process) ? mech::open_handler_mask(regs, space.memory()) : 0;
    if (opened != 0) foothold.note_open_handlers(space.memory(), open | opened);
    task.replaces_handler = mech::signal_that_is_set(regs) & ~opened & ~tracee::signal_bit(SIGTRAP);
    return;
  }
  const uint64_t ignored = std::exchange(task.finds_ignored, false) ? agent::kTrapBit : 0;
  mech::close_told_mask(regs, space.memory(), (open & ~agent::kTrapBit) | ignored);
  task.awaits_signal_call = 0;
  const uint64_t replaced = regs.raw.rax == 0 ? std::exchange(task.replaces_handler, 0) : 0;
  if ((open & replaced) != 0) foothold.note_open_handlers(space.memory(), open & ~replaced);
  if (static_cast<int>(regs.syscall_argument(0)) == SIGTRAP) note_withheld(process);
}

// Whether a thread blocks all but SIGTRAP in a process some of whose handlers we have opened.
bool Engine::is_in_open_handler(const Task& task) {
  const Image* image = task.process->image.get();
  const auto mask = image == nullptr ? std::nullopt : tracee::signal_mask(task.id.tid);
  if (!mask || trap_blocked_in(*mask | tracee::signal_bit(SIGTRAP)) != TrapBlocked::with_all) return false;
  Image& own = *task.process->image;
  return (own.space().foothold().open_handlers(own.space().memory()) & ~tracee::signal_bit(SIGTRAP)) != 0;
}

// While all threads of the process stand, but for sleepers that may stay, and none of them is where it sets
// or has been told an action, or is about to set its mask. False where they do not come to that soon.
bool Engine::with_actions_at_rest(pid_t pid, const std::shared_ptr<Image>& image, Sleepers sleepers,
                                  const std::function<void(pid_t, const std::vector<pid_t>&)>& work) {
  constexpr uint64_t kRestWait = 300'000'000;  // ns
  constexpr timespec kBetween{0, 500'000};
  bool done = false;
  for (const uint64_t begin = monotonic_now(); !done && still_running(pid, *image) != nullptr;) {
    with_stopped(pid, sleepers, [&](const NeedStopped& need_stopped) {
      const auto all = need_stopped.all();
      const auto held = all ? need_stopped() : std::nullopt;
      if (!held || still_running(pid, *image) == nullptr) return;
      const auto is_busy = [&](pid_t tid) {
        const auto task = tasks_.find(tid);
        const bool waits =
            task != tasks_.end() && task->second->rewound;  // in a call that we have interrupted
        return !waits && (image->may_be_in_sigaction(tid) || image->is_about_to_set_mask(tid));
      };
      if (std::ranges::any_of(*all, is_busy)) return;
      work(*held, *all);
      done = true;
    });
    if (done || monotonic_now() - begin > kRestWait) break;
    // What they were at goes on: a system call of theirs, or a vfork child that is to begin its program.
    nanosleep(&kBetween, nullptr);
    handle_some();
  }
  return done;
}

// A handler of the program's own must be known before a thread meets an int3. False where it is not yet.
bool Engine::learn_before_sites(pid_t pid, Image& image, const NeedStopped& need_stopped) {
  const Process* process = still_running(pid, image);
  if (process == nullptr || process->trap.kind == TrapDisposition::Kind::standard) return true;
  if (!image.space().foothold().exists()) return false;
  const auto held = need_stopped();
  Process* standing = still_running(pid, image);
  if (held && standing != nullptr) learn_trap_action(*held, standing->trap, image.space());
  return held.has_value();
}

// Together with what watches who asks for it, or behind that. Who has asked before that must have been told.
void Engine::screen_own_handler(pid_t pid, const std::shared_ptr<Image>& image,
                                const NeedStopped::Then& watch) {
  const auto is_due = [&] {
    const Process* process = still_running(pid, *image);
    return process != nullptr && process->trap.kind == TrapDisposition::Kind::caught &&
           process->trap.action_known && image->survival().is_due();
  };
  if (!is_due()) return;
  with_actions_at_rest(pid, image, Sleepers::stay, [&](pid_t held, const auto&) {
    if (is_due()) image->survival().screen(held, image->space());
    if (watch) watch();
  });
}

// Of a process that is attached to, while it stands, before the first int3: what would meet one with SIGTRAP
// blocked is opened, handlers and threads, and what is set from then on is watched by `watch`; handlers once
// more behind all. False where it could not be done yet. A thread that sleeps with SIGTRAP open is left alone
// but for handlers, for calls with a timeout begin anew by an interrupt: were it to wake, it would have to
// block all signals and we to die before `watch` is done.
bool Engine::open_handlers(pid_t pid, const std::shared_ptr<Image>& image, const NeedStopped::Then& watch) {
  constexpr uint64_t kOthers = agent::kReservedSignals | agent::kTrapBit;
  const Process* process = still_running(pid, *image);
  if (process == nullptr || !opens_handlers(*process)) return true;
  const auto status = tracee::read_status(pid);
  bool has_handlers = status && (status->caught & ~kOthers) != 0;
  if (has_handlers)
    with_stopped(pid, Sleepers::stop, [&](const NeedStopped& need_stopped) {
      const auto held = need_stopped();
      has_handlers = !held || Survival::blocks_all_in_handlers(*held, image->space());
    });
  const auto open = [&](pid_t stopped, const std::vector<pid_t>& all) {
    if (has_handlers) image->survival().open_handlers(stopped, image->space());
    if (!watch) return;
    for (pid_t tid : all)
      if (const auto task = tasks_.find(tid); task != tasks_.end()) open_trap(*task->second);
    watch();
  };
  if (!has_handlers && !watch) return true;
  const Sleepers sleepers = has_handlers ? Sleepers::stop : Sleepers::stay;
  const bool done = with_actions_at_rest(pid, image, sleepers, open);
  return done || !has_handlers || still_running(pid, *image) == nullptr;
}

// A thread in such a handler has SIGTRAP blocked again when it is let go of.
void Engine::close_handlers_of(Image& image, pid_t stopped, const std::vector<pid_t>& all) {
  for (pid_t tid : all)
    if (const auto task = tasks_.find(tid); task != tasks_.end() && is_in_open_handler(*task->second))
      task->second->trap_blocked = TrapBlocked::kept_open;
  image.survival().close_handlers(stopped, image.space());
}

// Before it is left, while its other probes stand. Where that cannot be yet, when all stand for the detach.
void Engine::close_handlers(pid_t pid) {
  const auto found = processes_.find(pid);
  const std::shared_ptr<Image> image = found != processes_.end() ? found->second->image : nullptr;
  if (image == nullptr || image->pid() != pid || !Survival::are_handlers_open(image->space())) return;
  const bool lent = std::ranges::any_of(processes_, [&](const auto& other) {
    return other.second->image == image && other.second->pid != pid;
  });
  const bool done =
      !lent && with_actions_at_rest(pid, image, Sleepers::stop, [&](pid_t stopped, const auto& all) {
        close_handlers_of(*image, stopped, all);
      });
  if (!done) RTRACE_LOG(session, 1, "handlers of {} are not closed yet", pid);
}

// And of children that are made meanwhile, where all are left.
void Engine::close_all_handlers(std::set<pid_t>& pids) {
  constexpr uint64_t kCloseWait = 2'000'000'000;  // ns: who goes on making others is not waited for
  const bool everything = leaves_all(pids);
  std::set<pid_t> closed;
  for (const uint64_t begin = monotonic_now(); monotonic_now() - begin < kCloseWait;) {
    if (everything)
      for (const auto& [pid, process] : processes_) pids.insert(pid);
    const auto next = std::ranges::find_if(pids, [&](pid_t pid) { return !closed.contains(pid); });
    if (next == pids.end()) return;
    closed.insert(*next);
    close_handlers(*next);
  }
}

// What close_handlers() could not do, while the tasks of the process stand, or wait for a vfork child. Else
// why not.
std::string Engine::close_handlers_at_last(const Leaving& leaving, Image& image, pid_t caller) {
  if (!Survival::are_handlers_open(image.space())) return {};
  std::vector<pid_t> all;
  for (const auto& [tid, task] : tasks_) {
    if (task->process->image.get() != &image || task->process->pid != image.pid()) continue;
    if (leaving.over.contains(tid)) continue;
    const bool stands = leaving.stopped.contains(tid);
    // One that was rewound is in a call that waits.
    if (stands && (task->rewound || !image.may_be_in_sigaction(tid)))
      all.push_back(tid);
    else if (stands || !sleeps_outside_copies(tid))
      return mech::kHandlersOpen;
  }
  close_handlers_of(image, caller, all);
  return {};
}

}  // namespace rtrace::session
