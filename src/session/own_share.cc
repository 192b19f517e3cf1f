#include "own_share.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <ctime>
#include <vector>

#include "reporter.h"
#include "rtrace/base/log.h"
#include "rtrace/base/unique_fd.h"
#include "rtrace/tracee/run_times.h"
#include "rtrace/tracee/thread.h"

namespace rtrace::session {
namespace {

constexpr uint64_t kLongestLook = 2'000'000;  // ns, for each place where the tracer may be
// ns, for the fewest where others use the processors: of what there must be, and of what may be
constexpr uint64_t kLongestTry = 200'000'000, kShortTry = 20'000'000;
constexpr size_t kMostSamples = 400, kFewestSamples = 16;
constexpr size_t kWarm = 8;            // the first ones meet cold caches
constexpr unsigned kStartWait = 2000;  // ms, for the child's first stop

// What is subtracted must not be more than what there was: of a hundred stops five may have been shorter.
constexpr size_t kLowPercent = 5;

// The processors that the engine may use, and itself on the one where it is, until it is done.
class OnOneProcessor {
 public:
  OnOneProcessor() {
    cpu_set_t one;
    CPU_ZERO(&one);
    here_ = sched_getcpu();
    if (here_ < 0 || here_ >= CPU_SETSIZE || sched_getaffinity(0, sizeof before_, &before_) != 0) return;
    CPU_SET(static_cast<size_t>(here_), &one);
    moved_ = sched_setaffinity(0, sizeof one, &one) == 0;
  }
  ~OnOneProcessor() {
    if (moved_) (void)sched_setaffinity(0, sizeof before_, &before_);
  }
  OnOneProcessor(const OnOneProcessor&) = delete;
  OnOneProcessor& operator=(const OnOneProcessor&) = delete;

  // Lets that child run on all the others; false where there are none.
  bool send_away(pid_t child) const {
    cpu_set_t others = before_;
    if (moved_) CPU_CLR(static_cast<size_t>(here_), &others);
    return moved_ && CPU_COUNT(&others) > 0 && sched_setaffinity(child, sizeof others, &others) == 0;
  }

  // To where we are: another that uses all of a processor need not let it end there.
  void bring_back(pid_t child) const {
    cpu_set_t one;
    CPU_ZERO(&one);
    if (!moved_) return;
    CPU_SET(static_cast<size_t>(here_), &one);
    (void)sched_setaffinity(child, sizeof one, &one);
  }

 private:
  cpu_set_t before_{};
  int here_ = -1;
  bool moved_ = false;
};

// Untraced, the first trap would kill it: it waits at the gate. Its tracer's end is its own.
[[noreturn]] void trap_for_ever(int gate) {
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  char byte = 0;
  if (read(gate, &byte, 1) != 1) _exit(1);
  for (;;) __asm__ volatile("int3" ::: "memory");
}

// The child stands at its first trap.
bool begin(pid_t child, int gate) {
  if (tracee::seize(child) != 0 || write(gate, "", 1) != 1) return false;
  const auto event = tracee::consume_within(child, kStartWait);
  return event && std::holds_alternative<tracee::Trap>(tracee::classify(event->status));
}

struct Costs {
  std::vector<uint64_t> passed, ran;
  bool enough() const { return passed.size() >= kFewestSamples + kWarm; }
};

enum class Wait { asleep, awake };

// Ends a wait that lasts so long, in ns: SIGALRM, from then on again and again, for one may come just before
// it.
class Alarm {
 public:
  explicit Alarm(uint64_t after) {
    sigevent event{};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGALRM;
    if (timer_create(CLOCK_MONOTONIC, &event, &timer_) != 0) return;
    const itimerspec due{{0, 5'000'000}, {0, static_cast<long>(after)}};
    stands_ = timer_settime(timer_, 0, &due, nullptr) == 0;
  }
  ~Alarm() {
    if (stands_) timer_delete(timer_);
  }
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;

 private:
  timer_t timer_{};
  bool stands_ = false;
};

// No event where it did not come by then: one who stays awake hears of no signal.
tracee::PeekAnswer next_stop(Wait wait, uint64_t until) {
  tracee::PeekAnswer answer;
  do {
    answer = tracee::peek_any(wait == Wait::asleep ? tracee::Block::yes : tracee::Block::no);
  } while (wait == Wait::awake && !answer.event && !answer.no_children && monotonic_now() < until);
  return answer;
}

// From one resumption to the next stop, as at a hit: the registers are read and written, and the stop is
// peeked.
Costs measure(pid_t child, Wait wait, uint64_t longest_try) {
  Costs costs;
  tracee::RunTimesFile account;
  std::optional<tracee::RunTimes> before;
  const uint64_t end = monotonic_now() + kLongestLook;
  const Alarm alarm(kLongestLook + longest_try);
  for (uint64_t resumed = 0; costs.passed.size() < kMostSamples;) {
    const auto regs = tracee::registers(child);
    if (!regs || tracee::set_registers(child, *regs) == tracee::Alive::gone) break;
    const auto now = account.read(child, child);
    if (now && before) costs.ran.push_back(now->ran - before->ran);
    before = now;
    resumed = monotonic_now();
    if (tracee::resume(child) == tracee::Alive::gone) break;
    const auto answer = next_stop(wait, end + longest_try);
    const uint64_t seen = monotonic_now();
    if (!answer.event && !answer.no_children)
      continue;  // a signal of ours; the child runs, and has no registers
    if (!answer.event || answer.event->tid != child || answer.event->status.is_end()) break;
    costs.passed.push_back(seen - resumed);
    if ((seen > end && costs.enough()) || seen > end + longest_try) break;
  }
  return costs;
}

// Without the first ones, sorted.
std::vector<uint64_t> settled(std::vector<uint64_t> costs) {
  costs.erase(costs.begin(), costs.begin() + static_cast<std::ptrdiff_t>(std::min(kWarm, costs.size())));
  std::sort(costs.begin(), costs.end());
  return costs;
}

uint64_t at_percent(const std::vector<uint64_t>& sorted, size_t percent) {
  return sorted.empty() ? 0 : sorted[(sorted.size() - 1) * percent / 100];
}

event::StopCosts::Stop low_of(const Costs& costs) {
  if (!costs.enough()) return {};
  return {at_percent(settled(costs.passed), kLowPercent), at_percent(settled(costs.ran), kLowPercent)};
}

// The child stands stopped, on the same processor.
std::optional<StopCost> measure_everywhere(pid_t child, const OnOneProcessor& place) {
  const Costs costs = measure(child, Wait::asleep, kLongestTry);
  if (!costs.enough()) return std::nullopt;
  StopCost cost;
  cost.stops.together = low_of(costs);
  const auto passed = settled(costs.passed);
  cost.spread_ns = (at_percent(passed, 90) - at_percent(passed, 10)) / 2;
  if (place.send_away(child)) {
    cost.stops.awake = low_of(measure(child, Wait::awake, kShortTry));
    cost.stops.asleep = low_of(measure(child, Wait::asleep, kShortTry));
  }
  const auto& [together, awake, asleep] = cost.stops;
  RTRACE_LOG(
      session, 1,
      "{} stops cost {} {} {} ns (low, median, 90%), of which {} running; the low ends across processors "
      "are {} of {} ns where the tracer stays awake, {} of {} where it does not",
      passed.size(), together.passed, at_percent(passed, 50), at_percent(passed, 90), together.ran, awake.ran,
      awake.passed, asleep.ran, asleep.passed);
  return cost;
}

}  // namespace

bool shows_durations(const Options& options) {
  return options.summary || !options.histograms.empty() || options.text.duration || options.json ||
         options.slower > 0 || !options.where.empty();
}

std::optional<StopCost> measure_stop_cost() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  const UniqueFd gate(ends[0]), opener(ends[1]);
  const OnOneProcessor same;  // the child inherits it
  const pid_t child = fork();
  if (child < 0) return std::nullopt;
  if (child == 0) {
    close(opener.get());
    trap_for_ever(gate.get());
  }
  const auto cost = begin(child, opener.get()) ? measure_everywhere(child, same) : std::nullopt;
  same.bring_back(child);
  ::kill(child, SIGKILL);
  while (const auto event = tracee::consume(child, tracee::Block::yes))
    if (event->status.is_end()) break;
  return cost;
}

}  // namespace rtrace::session
