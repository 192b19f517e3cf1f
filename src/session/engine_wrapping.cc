// Trampolines: their recorder's memory, kept in step with the threads, and the moments at which all tasks of
// a process stand, so that code of several bytes may be written.
#include <algorithm>
#include <utility>

#include "engine_core.h"
#include "rtrace/base/log.h"
#include "rtrace/base/text.h"
#include "rtrace/tracee/proc_fs.h"
#include "rtrace/tracee/thread.h"

namespace rtrace::session {
namespace {

constexpr unsigned kStopAgain = 1000;       // ms, for a stop that is pending already
constexpr uint64_t kHaltWait = 20'000'000;  // ns, for all of a process: then all run on
constexpr uint64_t kHandOn = 100'000'000;   // ns
constexpr uint64_t kShare = 20;             // of the time, one part at most

}  // namespace

void Engine::prepare_wrapping() {
  owners_.emplace(mech::AgentLink::kOwnerDistance);
  services_.owners = &*owners_;
  shared_.wrapping = 1;
  auto measured = mech::measure_recorder(services_.recording);
  if (auto* share = std::get_if<mech::RecorderShare>(&measured)) {
    services_.recorder = *share;
    ticks_.emplace(share->nanoseconds_per_tick);
  }
  if (auto* why = std::get_if<std::string>(&measured)) services_.no_recorder = *why;
}

// Who has met a site and will meet it again, for a signal took it back, must find it as it was.
bool Engine::awaits_replay(const Image& image) const {
  return std::ranges::any_of(tasks_, [&](const auto& task) {
    return task.second->process->image.get() == &image && task.second->replays.expects();
  });
}

// Where calls that are open will return to, and not to a wrapper.
std::unordered_set<VirtAddr> Engine::awaited_returns(const Image& image) const {
  std::unordered_set<VirtAddr> awaited;
  for (const auto& [tid, task] : tasks_) {
    if (task->process->image.get() != &image) continue;
    std::unordered_set<event::CallId> recorded;
    for (const RecordedCall& call : task->recorded) recorded.insert(call.call);
    task->stack.for_each_frame([&](const event::Frame& frame) {
      if (!recorded.contains(frame.call)) awaited.insert(frame.identity.return_address);
    });
  }
  return awaited;
}

// What waits for a moment at which all tasks stand, and counts that whoever survives us is to print.
void Engine::tend_trampolines() {
  const uint64_t now = monotonic_now();
  std::vector<pid_t> waiting;
  for (const auto& [pid, process] : processes_)
    if (!process->silent && process->image != nullptr && process->image->awaits_stop(now))
      waiting.push_back(pid);
  for (pid_t pid : waiting) {
    const auto process = processes_.find(pid);
    if (process == processes_.end() || process->second->image == nullptr) continue;
    const std::shared_ptr<Image> image = process->second->image;
    image->prepare_turn();
    with_stopped(pid, Sleepers::stop, [&](const NeedStopped& need_stopped) {
      if (!need_stopped.all() || awaits_replay(*image)) return image->wrap_later();
      const bool wrapped = image->wrap_late(need_stopped);
      if (wrapped) mute_lent(*image);
      if (!wrapped && !image->has_idle_returns()) return;
      if (const auto all = need_stopped.all()) image->give_up_returns(awaited_returns(*image), *all);
    });
  }
  const uint64_t begin = monotonic_now();
  if (begin < hand_on_at_) return;
  for (const auto& [pid, process] : processes_) {
    hand_on_counts(*process, nullptr);
    // Beside a summary, where nothing says when they were made, now and then.
    const auto& lost = process->lost_by_borrowing;
    if (options_.call_lines || lost.untold > lost.told) tell_lost_by_borrowing(*process, {pid, pid, 0});
  }
  // Threads wait at breakpoints meanwhile.
  hand_on_at_ = begin + std::max(kHandOn, kShare * (monotonic_now() - begin));
}

void Engine::hand_on_counts(const Process& process, const Task* by) {
  if (process.silent || process.image == nullptr || process.image->trampolines() == nullptr) return;
  const mech::RecorderShare& share = services_.recorder;
  shared_.summary.share.wrapped_ns =
      (uint64_t{share.inside} + share.outside) * share.nanoseconds_per_tick >> 32;
  const event::TraceeId who = by != nullptr ? by->id : event::TraceeId{process.pid, process.pid, 0};
  process.image->hand_on_counts(who);
  const mech::Trampolines& trampolines = *process.image->trampolines();
  const bool leaves = trampolines.begun() && trampolines.records().abandoned();
  tell_lost(who, process.image->take_unplaced(),
            leaves ? "begun in the moment in which rtrace left" : "too many threads made them at a time");
}

void Engine::tell_lost_by_borrowing(Process& process, event::TraceeId who) {
  auto& lost = process.lost_by_borrowing;
  const uint64_t count = std::exchange(lost.untold, 0);
  lost.told += count;
  tell_lost(who, count, "of a task that shares its parent's thread pointer");
}

void Engine::tell_lost(event::TraceeId who, uint64_t count, const std::string& why) {
  if (count == 0) return;
  reporter_.take(who, timestamp(), decode::Lost{count, why});
  if (!options_.call_lines) reporter_.say(fmt::format("{} lost: {}", counted(count, "call"), why));
}

// Whether a child that is about to be may run in that memory: not where it is another program's.
bool Engine::may_run_in(const Birth& birth, const Image* image) const {
  if (birth.shares_memory) return true;
  const auto parent = tasks_.find(birth.parent);
  if (parent != tasks_.end()) return parent->second->process->image.get() == image;
  const auto process = processes_.find(birth.parent_process);
  return process == processes_.end() || process->second->image.get() == image;
}

// Nobody else runs in its memory, nor is about to.
bool Engine::alone(const Task& task) const {
  const Image* image = task.process->image.get();
  return std::ranges::none_of(births_, [&](const auto& birth) { return may_run_in(birth.second, image); }) &&
         std::ranges::none_of(tasks_, [&](const auto& other) {
           return other.second.get() != &task && other.second->process->image.get() == image;
         });
}

NeedStopped Engine::stop_here_alone(Task& task, const arch::Regs& at) {
  const NeedStopped one = stop_here(task, at);
  return {one, [this, one, &task]() -> std::optional<std::vector<pid_t>> {
            if (!alone(task) || awaits_replay(*task.process->image)) return std::nullopt;
            const auto stopped = one();
            return stopped ? std::optional(std::vector{*stopped}) : std::nullopt;
          }};
}

// `work` gets one task of the process stopped where it asks for that, or all; they run on afterwards, or when
// it lets the one go.
void Engine::with_stopped(pid_t pid, Sleepers sleepers, const std::function<void(const NeedStopped&)>& work) {
  std::optional<pid_t> held;
  std::optional<std::vector<Halted>> others;
  const auto one = [&]() -> std::optional<pid_t> {
    const auto process = processes_.find(pid);
    if (!held && process != processes_.end()) held = hold_one(*process->second);
    return held;
  };
  const auto all = [&]() -> std::optional<std::vector<pid_t>> {
    if (!one()) return std::nullopt;
    if (!others) others = halt_others(pid, *held, sleepers);
    if (!others) return std::nullopt;
    std::vector<pid_t> tids = {*held};
    for (const Halted& other : *others) tids.push_back(other.tid);
    return tids;
  };
  const auto let_go = [&] {
    if (held && !others) let_held_run(*std::exchange(held, std::nullopt));
  };
  work({one, all, let_go});
  if (others) let_halted_run(*others);
  if (held) let_held_run(*held);
}

// An exec by another thread takes the stop of the process's first one away (fs/exec.c, de_thread), and a
// SIGKILL any: what its tid stands in then is no stop that was asked for, and tells its own story.
bool Engine::left_its_stop(pid_t tid) {
  const auto event = tracee::stop_now(tid);
  queue_.forget(tid);
  if (event) handle(*event);
  return event.has_value();
}

void Engine::let_held_run(pid_t held) {
  if (left_its_stop(held)) return;
  const auto task = tasks_.find(held);
  if (task == tasks_.end()) return;
  if (!task->second->listening) return go_on(*task->second, 0);
  // A stopped process stays stopped: the thread re-enters the group-stop at our next interrupt
  // (kernel/signal.c, do_jobctl_trap).
  (void)tracee::interrupt(held);
  (void)tracee::resume(held);
  if (const auto event = stop_of(held, kStopAgain)) handle(*event);
}

static bool sleeps_with_trap_open(pid_t tid) {
  const auto status = tracee::read_status(tid);
  return status && status->state == 'S' && (status->blocked & tracee::signal_bit(SIGTRAP)) == 0;
}

// One in an uninterruptible sleep stops before it runs user code.
static bool waits_for_vfork(Task& task) {
  const auto status = tracee::read_status(task.id.tid);
  if (!status || status->state != 'D' || tracee::interrupt(task.id.tid) == tracee::Alive::gone) return false;
  task.interrupted = true;
  return true;
}

// All tasks but one that is held already, and sleepers that may stay. nullopt where they do not stand soon,
// or somebody outside of the process runs in its memory: then all have been let go.
std::optional<std::vector<Engine::Halted>> Engine::halt_others(pid_t pid, pid_t held, Sleepers sleepers) {
  const auto process = processes_.find(pid);
  const std::shared_ptr<Image> image = process->second->image;
  const uint64_t deadline = monotonic_now() + kHaltWait;
  std::vector<Halted> halted;
  const auto stands = [&](pid_t tid) {
    return tid == held || std::ranges::any_of(halted, [&](const Halted& one) { return one.tid == tid; });
  };
  for (;;) {
    collect_births();
    std::vector<pid_t> waiting;
    bool fit = processes_.contains(pid) && processes_.at(pid)->image == image && tasks_.contains(held);
    for (const auto& [tid, task] : tasks_) {
      if (task->process->image != image) continue;
      // The actions of a process that only shares the memory are its own.
      if (hands_over_ && task->process->pid != pid) continue;
      fit &= task->process->pid == pid;
      if (hands_over_ && waits_for_vfork(*task)) continue;
      if (stands(tid) || (tid == pid && tracee::is_zombie(tid))) continue;
      if (sleepers == Sleepers::stop || !sleeps_with_trap_open(tid)) waiting.push_back(tid);
    }
    if (fit && waiting.empty() && (births_.empty() || hands_over_)) return halted;
    if (!fit || monotonic_now() > deadline) break;
    for (pid_t tid : waiting) (void)tracee::interrupt(tid);
    for (pid_t tid : waiting) {
      const auto event = stop_of(tid, 1);
      if (!event) continue;
      if (const auto one = halted_by(*event)) halted.push_back(*one);
    }
    std::erase_if(halted, [&](const Halted& one) { return !tasks_.contains(one.tid); });
  }
  let_halted_run(halted);
  return std::nullopt;
}

// What a stop means, consumed where the task stands; nullopt where the task runs on, or has ended.
std::optional<Engine::Halted> Engine::halted_by(const tracee::WaitEvent& event) {
  auto found = tasks_.find(event.tid);
  if (found == tasks_.end()) return std::nullopt;
  Task& task = *found->second;
  const auto stop = tracee::classify(event.status);
  const bool trap = std::holds_alternative<tracee::Trap>(stop);
  // It is handled as any, later: were a hit undone, to be met again, it might be for ever.
  if (trap && hands_over_ && catches_trap(event.tid)) return Halted{event.tid, Halted::How::due};
  clock_stop(task);
  settle_clock(task, Asked::nothing);
  if (trap) {
    arch::Regs regs;
    const bool taken = taken_for_hit(event.tid);
    const Met met = back_to_site(task, regs);
    if (met == Met::site) {
      // The site may be gone when the thread runs on: this was its last word on what the int3 cost it.
      restore_trap(task, Look::yes, stop_here(task, regs));
      settle_signals(task, taken, std::nullopt);
      return Halted{event.tid, Halted::How::ready};
    }
    if (met == Met::gone) return std::nullopt;
    // Nor can it be handed over while others are about to stand.
    if (task.process->trap.kind == TrapDisposition::Kind::caught) return Halted{event.tid, Halted::How::due};
  }
  if (std::holds_alternative<tracee::Interrupted>(stop)) {
    task.interrupted = true;
    let_kernel_restart(event.tid);  // at once: we may die while others are waited for
    return Halted{event.tid, Halted::How::interrupted};
  }
  if (std::holds_alternative<tracee::GroupStop>(stop)) return Halted{event.tid, Halted::How::group_stopped};
  // The exit of a system call may be all that shows of our interrupt.
  if (std::holds_alternative<tracee::SyscallStop>(stop)) task.interrupted = true;
  std::visit([&](auto what) { on(task, what); }, stop);
  return std::nullopt;
}

void Engine::let_halted_run(const std::vector<Halted>& halted) {
  for (const Halted& one : halted) {
    if (one.how == Halted::How::due) continue;
    if (one.how == Halted::How::interrupted && left_its_stop(one.tid)) continue;
    const auto task = tasks_.find(one.tid);
    if (task == tasks_.end()) continue;
    if (one.how == Halted::How::interrupted) {
      let_run(*task->second);
    } else {
      task->second->listening = one.how == Halted::How::group_stopped;
      let_held_run(one.tid);
    }
  }
}

// It is about to fork.
std::optional<mech::ThreadState> Engine::recorder_of(const Task& parent) {
  Image* image = parent.process->image.get();
  const auto regs = tracee::registers(parent.id.tid);
  if (image == nullptr || image->trampolines() == nullptr || !regs) return std::nullopt;
  return image->trampolines()->state_of(regs->raw.fs_base);
}

// A fork child stands before its first instruction.
void Engine::begin_wrappers(Task& child, Image& parent, const std::optional<mech::ThreadState>& state) const {
  const pid_t tid = child.id.tid;
  const auto regs = tracee::registers(tid);
  if (!owners_ || !regs) return;
  child.thread_pointer = regs->raw.fs_base;
  child.held_before = state ? state->held : 0;
  child.counted_before = state ? state->own : 0;
  child.process->image->inherit_wrapping(
      parent, child.thread_pointer, state, [tid]() -> std::optional<pid_t> {
        return tracee::forbids_calls(tid) ? std::nullopt : std::optional(tid);
      });
}

// A thread stands before its first instruction: whoever had its thread pointer before it has ended, which may
// still be to come, and with it what was recorded last.
void Engine::begin_record_of(Task& thread) {
  if (!owners_ || thread.process->image == nullptr) return;
  const mech::Trampolines* trampolines = thread.process->image->trampolines();
  const auto regs = tracee::registers(thread.id.tid);
  if (!regs) return;
  thread.thread_pointer = regs->raw.fs_base;
  if (trampolines == nullptr || !trampolines->begun() || thread.thread_pointer == 0) return;
  take_records_before(thread);
  trampolines->records().thread_begins(thread.thread_pointer);
}

void Engine::end_record_of(const Task& thread) const {
  if (!owners_ || thread.process->image == nullptr || thread.thread_pointer == 0) return;
  const mech::Trampolines* trampolines = thread.process->image->trampolines();
  if (trampolines != nullptr && trampolines->begun())
    trampolines->records().thread_ended(thread.thread_pointer, thread.id.tid);
}

// Null where its calls are not recorded.
const mech::Trampolines* Engine::trampolines_of(const Task& task) {
  if (task.thread_pointer == 0 || task.process->silent || task.process->image == nullptr) return nullptr;
  const mech::Trampolines* trampolines = task.process->image->trampolines();
  return trampolines != nullptr && trampolines->begun() ? trampolines : nullptr;
}

// What wrapped calls that are open then have not taken themselves: what the thread was held, and where they
// are counted, what other calls inside of them took.
void Engine::account_for_hold(Task& task, uint64_t nanoseconds) const {
  const uint64_t others = task.own_time - std::exchange(task.own_time_told, task.own_time);
  const mech::Trampolines* trampolines = trampolines_of(task);
  if (trampolines == nullptr) return;
  const auto in_ticks = [&](uint64_t time) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(time) << 32) /
                                 services_.recorder.nanoseconds_per_tick);
  };
  const mech::SharedRecords& records = trampolines->records();
  // One without a slot begins with what it had: a fork child with its parent's.
  if (const auto held = records.held(task.thread_pointer, in_ticks(nanoseconds))) task.held_before = *held;
  if (services_.recording == agent::Mode::count)
    if (const auto own = records.own(task.thread_pointer, in_ticks(others))) task.counted_before = *own;
  records.note_inside(task.thread_pointer, task.stack.depth() > 0);
}

// Calls that the thread has counted by itself since it was resumed are inside of the one that was met last.
void Engine::count_inside(Task& task) const {
  const mech::Trampolines* trampolines = trampolines_of(task);
  if (services_.recording != agent::Mode::count || trampolines == nullptr) return;
  const uint64_t own = trampolines->records().own(task.thread_pointer, 0).value_or(0);
  const uint64_t inside = own > task.counted_before ? ticks_->nanoseconds(own - task.counted_before) : 0;
  task.counted_before = std::max(task.counted_before, own);
  task.stack.count_inside(inside);
  task.own_time += inside;
  task.own_time_told += inside;
}

}  // namespace rtrace::session
