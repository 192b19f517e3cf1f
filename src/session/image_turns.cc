// When breakpoints get their turn to become trampolines. In a process that runs threads wait at breakpoints
// while code is examined, and all of them while it is patched: so never for many functions at a time.
#include <linux/seccomp.h>
#include <sys/syscall.h>

#include <algorithm>
#include <set>

#include "image.h"
#include "rtrace/arch/placement.h"
#include "rtrace/tracee/proc_fs.h"
#include "rtrace/tracee/seccomp_filter.h"
#include "wrapper_rules.h"

namespace rtrace::session {
namespace {

constexpr uint64_t kLongestPause = 1'000'000'000;  // ns
constexpr size_t kAtOnce = 128;                    // as a rule some ms

}  // namespace

// Before a command begins nobody else waits; once turns have begun a library's functions await theirs.
void Image::hurry(Moment moment) {
  wrapping_.at_once = moment == Moment::hook && !wrapping_.many ? SIZE_MAX : kAtOnce;
}

bool Image::awaits_stop(uint64_t now) const {
  return (wrapping_.unfinished() != 0 || wrapping_.idle_returns) && now >= wrapping_.again_at;
}

namespace {

// For which wrappers ask the kernel, if rtrace is killed, how far arguments in memory reach (agent/pages.cc).
// `task` stands; nullopt where that cannot be told.
std::optional<bool> may_ask_kernel(pid_t task) {
  return tracee::filters_allow(task, SYS_rt_sigprocmask, {0x7fffffff, arch::kPageSize, 0, sizeof(uint64_t)});
}

}  // namespace

// While rtrace lives wrappers make no system call, whatever the process may make. All threads stand.
void Image::heed_seccomp() {
  const auto status = tracee::read_status(pid_);
  if (status && status->seccomp == SECCOMP_MODE_STRICT)
    return stay_breakpoints("the strict mode of seccomp forbids the time stamp counter");
  const bool filtered = tracee::seccomp_of(pid_) == tracee::Seccomp::suspended;
  bool may_ask = true;
  for (pid_t tid : tracee::read_tasks(pid_)) may_ask = may_ask && may_ask_kernel(tid).value_or(!filtered);
  if (may_ask) return;
  auto& functions = wrapping_.waiting;
  const auto stays = std::stable_partition(functions.begin(), functions.end(), [&](const Waiting& function) {
    const Probe& probe = services_.registry.at(function.probe);
    return probe.known != nullptr && arguments_in_memory(function.point, probe).bytes == 0;
  });
  std::for_each(stays, functions.end(), [&](const Waiting& function) {
    stays_breakpoint(
        function.point, services_.registry.at(function.probe),
        "it takes arguments in memory, for which its wrapper would make a system call if rtrace is "
        "killed, and a seccomp filter forbids that");
  });
  functions.erase(stays, functions.end());
}

void Image::take_turn(size_t most) {
  if (!std::ranges::all_of(wrapping_.queued,
                           [](const Waiting& function) { return function.entry.has_value(); })) {
    examine_slots();
    examine_entries();
  }
  // Others wait for threads to stand elsewhere.
  const auto untried = static_cast<size_t>(
      std::ranges::count_if(wrapping_.waiting, [](const Waiting& function) { return !function.tried; }));
  if (most > untried) bring_forward(most - untried);
  examine_borrowers();
}

// Those that were met most, and what shares a GOT slot with them.
void Image::bring_forward(size_t most) {
  auto& queued = wrapping_.queued;
  if (queued.size() > most) {
    const auto met = [&](const Waiting& function) {
      const mech::BreakpointSite* site = space_->find(function.point.address);
      return site != nullptr ? site->met : 0;
    };
    std::ranges::stable_sort(queued, std::ranges::greater(), met);
  }
  const auto first = queued.begin(), end = first + static_cast<ptrdiff_t>(std::min(most, queued.size()));
  std::set<VirtAddr> slots;
  std::for_each(first, end, [&](const Waiting& function) { slots.insert(function.point.slot); });
  slots.erase(VirtAddr{});
  const auto last = std::stable_partition(
      end, queued.end(), [&](const Waiting& function) { return slots.contains(function.point.slot); });
  std::move(first, last, std::back_inserter(wrapping_.waiting));
  queued.erase(first, last);
}

void Image::wrap_later() {
  wrapping_.pause = std::clamp(2 * wrapping_.pause, kFirstWrapPause, kLongestPause);
  wrapping_.again_at = monotonic_now() + wrapping_.pause;
}

void Image::wrap(const NeedStopped& need_stopped) {
  if (wrapping_.unfinished() == 0) return;
  wrapping_.turn_began = monotonic_now();
  if (wrapping_.unfinished() > wrapping_.at_once && !std::exchange(wrapping_.many, true)) {
    wrapping_.again_at = wrapping_.turn_began + kFirstWrapPause;  // whoever has met one goes on first
    return;
  }
  // Without a limit only where no other thread is to be waited for.
  if (wrapping_.at_once == SIZE_MAX && !need_stopped.all()) return wrap_later();
  take_turn(wrapping_.at_once);
  end_turn(need_stopped);
}

void Image::end_turn(const NeedStopped& need_stopped) {
  if (!wrapping_.waiting.empty()) {
    wrap_later();
    const auto all = need_stopped.all();
    if (!all) return;
    heed_seccomp();
    if (wrapping_.unfinished() == 0) return;
    if (const std::string failure = prepare_recorder(need_stopped); !failure.empty())
      return stay_breakpoints(failure);
    wrap_waiting(*all);
  }
  const uint64_t now = monotonic_now();
  if (!wrapping_.queued.empty())
    wrapping_.again_at = now + std::max(kFirstWrapPause, 2 * (now - wrapping_.turn_began));
}

// All that are left.
void Image::stay_breakpoints(const std::string& reason) {
  for (auto* functions : {&wrapping_.waiting, &wrapping_.queued})
    for (const Waiting& function : std::exchange(*functions, {}))
      stays_breakpoint(function.point, services_.registry.at(function.probe), reason);
}

void Image::prepare_turn() {
  wrapping_.at_once = kAtOnce;
  wrapping_.turn_began = monotonic_now();
  take_turn(kAtOnce);
  wrapping_.many |= !wrapping_.queued.empty();
  report_armed();
}

// When nobody waits for what an object has brought.
bool Image::wrap_late(const NeedStopped& need_stopped) {
  const size_t before = wrapping_.functions.size();
  end_turn(need_stopped);
  report_armed();
  return wrapping_.functions.size() > before;
}

}  // namespace rtrace::session
