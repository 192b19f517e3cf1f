#include "own_share.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <vector>

#include "reporter.h"
#include "rtrace/base/log.h"
#include "rtrace/base/unique_fd.h"
#include "rtrace/tracee/run_times.h"
#include "rtrace/tracee/thread.h"

namespace rtrace::session {
namespace {

constexpr uint64_t kLongestLook = 4'000'000;  // ns
constexpr size_t kMost = 400, kFewest = 16;
constexpr size_t kWarm = 8;           // the first ones meet cold caches
constexpr unsigned kStartWait = 200;  // ms, for the child's first stop

// What is subtracted must not be more than what there was: of a hundred stops five may have been shorter.
constexpr size_t kLowPercent = 5;

// A wake-up across processors costs several times one on the same, and which of the two a run will have
// cannot be known: the lesser is what every stop costs at least.
class OnOneProcessor {
 public:
  OnOneProcessor() {
    cpu_set_t one;
    CPU_ZERO(&one);
    const int here = sched_getcpu();
    if (here < 0 || here >= CPU_SETSIZE || sched_getaffinity(0, sizeof before_, &before_) != 0) return;
    CPU_SET(static_cast<size_t>(here), &one);
    moved_ = sched_setaffinity(0, sizeof one, &one) == 0;
  }
  ~OnOneProcessor() {
    if (moved_) (void)sched_setaffinity(0, sizeof before_, &before_);
  }
  OnOneProcessor(const OnOneProcessor&) = delete;
  OnOneProcessor& operator=(const OnOneProcessor&) = delete;

 private:
  cpu_set_t before_{};
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
};

// From one resumption to the next stop, as at a hit: the registers are read and written, and the stop is
// peeked.
Costs measure(pid_t child) {
  Costs costs;
  tracee::RunTimesFile account;
  std::optional<tracee::RunTimes> before;
  const uint64_t end = monotonic_now() + kLongestLook;
  for (uint64_t resumed = 0; costs.passed.size() < kMost;) {
    const auto regs = tracee::registers(child);
    if (!regs || tracee::set_registers(child, *regs) == tracee::Alive::gone) break;
    const auto now = account.read(child, child);
    if (now && before) costs.ran.push_back(now->ran - before->ran);
    before = now;
    resumed = monotonic_now();
    if (tracee::resume(child) == tracee::Alive::gone) break;
    const auto answer = tracee::peek_any(tracee::Block::yes);
    const uint64_t seen = monotonic_now();
    if (!answer.event && !answer.no_children) continue;  // a signal of ours
    if (!answer.event || answer.event->tid != child || answer.event->status.is_end()) break;
    costs.passed.push_back(seen - resumed);
    if (seen > end && costs.passed.size() >= kFewest + kWarm) break;
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
  const Costs costs = begin(child, opener.get()) ? measure(child) : Costs{};
  ::kill(child, SIGKILL);
  while (const auto event = tracee::consume(child, tracee::Block::yes))
    if (event->status.is_end()) break;
  if (costs.passed.size() < kFewest + kWarm) return std::nullopt;
  const auto passed = settled(costs.passed);
  const uint64_t low = at_percent(passed, kLowPercent), ran = at_percent(settled(costs.ran), kLowPercent);
  const uint64_t spread = at_percent(passed, 90) - at_percent(passed, 10);
  RTRACE_LOG(session, 1, "{} stops cost {} {} {} ns (low, median, 90%), of which {} running", passed.size(),
             low, at_percent(passed, 50), at_percent(passed, 90), ran);
  return StopCost{low, ran, spread / 2};
}

}  // namespace rtrace::session
