// The threads' own clocks: what of the time is not theirs.
#include <sched.h>

#include <algorithm>
#include <utility>

#include "engine_core.h"
#include "own_share.h"

namespace rtrace::session {
namespace {
constexpr unsigned kQuestions = 64;    // stops at which the account is asked for, after a late one
constexpr size_t kMostAccounts = 256;  // each holds a file open
}  // namespace

// Before anything is traced: the first durations are to be right too.
void Engine::calibrate() {
  if (options_.mechanism == Options::Mechanism::trampoline) prepare_wrapping();
  if (!shows_durations(options_) || options_.ltrace_compat) return;
  const auto cost = measure_stop_cost();
  if (!cost)
    return reporter_.say("rtrace's own share of durations could not be measured and is not subtracted");
  stop_costs_ = syscall_costs_ = event::StopCosts(cost->stops);
  times_calls_ = !options_.raw_times;
  shared_.summary.share.low_ns = cost->stops.together.passed;
  shared_.summary.share.spread_ns = cost->spread_ns;
  if (options_.raw_times)
    reporter_.say(fmt::format(
        "each duration holds {:.1f}us +- {:.1f}us of rtrace's own, and what it does at a stop",
        static_cast<double>(cost->stops.together.passed) / 1e3, static_cast<double>(cost->spread_ns) / 1e3));
}

// A stop was seen. What the recorder in the process took of the time before it is not the program's.
void Engine::clock_stop(Task& task) {
  const uint64_t now = monotonic_now();
  // It may have got its slot just now, and with it what the one before it was held.
  if (ticks_ && task.held_before == 0) take_records_of(task);
  task.account.unsettled = task.clock.stopped(now);
  if (!ticks_ || !task.account.unsettled) return;
  uint64_t& passed = *task.account.unsettled;
  count_inside(task);
  passed -= std::min(passed, recorders_time(task));
}

// Of the stop that was just seen; then what was recorded before it can be told the time.
void Engine::settle_clock(Task& task, Asked asked) {
  const auto passed = std::exchange(task.account.unsettled, std::nullopt);
  if (!passed) return;
  using Tracer = event::StopCosts::Tracer;
  std::optional<event::StopCosts::Account> account;
  task.account.late = false;
  event::StopCosts& costs = asked == Asked::registers ? stop_costs_ : syscall_costs_;
  if (asked == Asked::registers && times_calls_)
    account = ask_account(task, *passed);
  else
    task.account.at_last_stop.reset();
  if (times_calls_) costs.seen(*passed);
  const uint64_t own = costs.own(*passed, account, account ? where_we_were(task) : Tracer::on_its_processor);
  task.clock.ran(own);
  const uint64_t not_own = *passed - std::min(*passed, own);
  if (times_calls_) task.account.not_own += not_own;
  // The delivery of the stop comes behind all that was recorded; what else is not its own may have come
  // before.
  task.account.woken = not_own - std::min(not_own, stop_costs_.delivery());
  if (ticks_) take_records_of(task);
}

// When the present stop came. Of one that came as soon as is usual it is not asked.
event::StopCosts::Tracer Engine::where_we_were(Task& task) const {
  using Tracer = event::StopCosts::Tracer;
  const auto& image = task.process->image;
  if (!task.account.late || image == nullptr) return Tracer::on_its_processor;
  const auto cpu = task.account.processor.read(task.id.tid, image->space().memory());
  if (!cpu || *cpu == sched_getcpu()) return Tracer::on_its_processor;
  return queue_.found_awake() ? Tracer::elsewhere_awake : Tracer::elsewhere_asleep;
}

std::optional<event::StopCosts::Account> Engine::ask_account(Task& task, uint64_t passed) {
  RunAccount& account = task.account;
  account.late = stop_costs_.doubtful(passed);
  if ((!account.late && account.questions == 0) || tasks_.size() > kMostAccounts) {
    account.at_last_stop.reset();
    return std::nullopt;
  }
  account.questions = account.late ? kQuestions : account.questions - 1;
  const auto now = account.file.read(task.process->pid, task.id.tid);
  const auto before = std::exchange(account.at_last_stop, now);
  if (!now || !before) return std::nullopt;
  return event::StopCosts::Account{now->ran - before->ran, now->slices - before->slices};
}

// The last that is done to a stopped thread before it is resumed.
void Engine::runs_on(Task& task) {
  const uint64_t now = monotonic_now();
  if (task.clock.held()) {
    if (options_.summary) {
      sink::OwnShare& share = shared_.summary.share;
      ++share.stops;
      share.held_ns += now - task.clock.stopped_at();
    }
    // Of counted calls the thread itself takes the time; the others go by its clock here.
    const uint64_t not_own = std::exchange(task.account.not_own, 0);
    const bool counts = services_.recording == agent::Mode::count;
    if (owners_) account_for_hold(task, now - task.clock.stopped_at() + (counts ? not_own : 0));
  }
  task.clock.resumed(now);
}

}  // namespace rtrace::session
