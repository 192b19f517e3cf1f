#include "rtrace/session/cpu_follower.h"

#include <algorithm>

#include "rtrace/base/log.h"
#include "rtrace/tracee/proc_fs.h"

namespace rtrace::session {
namespace {
// A look costs some 15 us.
constexpr uint64_t kInterval = 4'000'000, kShortest = 500'000;  // ns
}  // namespace

std::optional<int> CpuChoice::seen(int cpu, uint64_t now) {
  same_ = cpu == last_ ? same_ + 1 : 1;
  last_ = cpu;
  if (!followed_) {
    if (same_ >= kAgree && now >= not_before_) followed_ = cpu, strikes_ = 0;
    return followed_;
  }
  if (cpu == *followed_) {
    strikes_ = 0;
    if (same_ > 64) pause_ = kFirstPause;
    return followed_;
  }
  if (++strikes_ < kStrikes) return followed_;
  let_go(now);
  pause_ = std::min(pause_ * 2, kLongestPause);
  return followed_;
}

void CpuChoice::let_go(uint64_t now) {
  followed_.reset();
  not_before_ = now + pause_;
}

void CpuFollower::run_free(uint64_t now) {
  if (!wanted_) return;
  choice_.let_go(now);
  go(std::nullopt);
}

CpuFollower::CpuFollower(Options::Cpu choice)
    : wanted_(choice == Options::Cpu::follow && sched_getaffinity(0, sizeof allowed_, &allowed_) == 0 &&
              CPU_COUNT(&allowed_) > 1) {}

std::optional<tracee::Spin::Tracee> CpuFollower::hit(pid_t pid, pid_t tid, uint64_t now, bool late) {
  using Tracee = tracee::Spin::Tracee;
  const uint64_t interval = late && was_here_ ? kShortest : kInterval;
  if (!wanted_ || (sampled_ != 0 && now < sampled_ + interval)) return std::nullopt;
  sampled_ = now;
  const auto cpu = tracee::last_processor(pid, tid);
  if (!cpu) return std::nullopt;
  const auto next = choice_.seen(*cpu, now);
  go(tracee::is_real_time(tid) ? std::nullopt : next);  // which would not let us run there
  was_here_ = *cpu == sched_getcpu();
  return was_here_ ? Tracee::here : Tracee::elsewhere;
}

void CpuFollower::go(std::optional<int> cpu) {
  if (cpu == here_) return;
  here_ = cpu;
  cpu_set_t one;
  CPU_ZERO(&one);
  if (cpu && *cpu >= 0 && *cpu < CPU_SETSIZE) CPU_SET(static_cast<size_t>(*cpu), &one);
  CPU_AND(&one, &one, &allowed_);
  const bool can = CPU_COUNT(&one) > 0;
  RTRACE_LOG(session, 1, "engine {} {}", can ? "follows to processor" : "runs on any processor",
             cpu.value_or(-1));
  (void)sched_setaffinity(0, sizeof one, can ? &one : &allowed_);
}

}  // namespace rtrace::session
