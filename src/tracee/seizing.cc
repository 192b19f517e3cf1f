#include "rtrace/tracee/seizing.h"

#include <sys/wait.h>

#include <atomic>
#include <cerrno>
#include <utility>

#include "rtrace/tracee/thread.h"

namespace rtrace::tracee {
namespace {

// An exec that nobody holds up takes less.
constexpr timespec kPeriod{0, 10'000'000};

// Set while its thread stands in PTRACE_SEIZE, and nowhere else where a handler could disturb it.
std::atomic<Seizing*> waiting = nullptr;
static_assert(std::atomic<Seizing*>::is_always_lock_free);

}  // namespace

Seizing::Seizing(pid_t pid) : pid_(pid) {
  struct sigaction action {};
  action.sa_handler = on_alarm;
  sigaction(SIGALRM, &action, &before_);
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGALRM;
  has_timer_ = timer_create(CLOCK_MONOTONIC, &event, &timer_) == 0;
  const itimerspec ticks{kPeriod, kPeriod};
  if (has_timer_) timer_settime(timer_, 0, &ticks, nullptr);
}

Seizing::~Seizing() {
  if (has_timer_) timer_delete(timer_);
  sigaction(SIGALRM, &before_, nullptr);
}

// ptrace(2) goes on with its waiting behind the handler (-ERESTARTNOINTR).
void Seizing::on_alarm(int) {
  const int error_number = errno;
  if (Seizing* seizing = waiting.load()) seizing->reap();
  errno = error_number;
}

void Seizing::reap() {
  for (pid_t& tid : seized_) {
    siginfo_t info{};
    const bool ended = tid != 0 && tid != pid_ &&
                       waitid(P_PID, static_cast<id_t>(tid), &info, WEXITED | WNOHANG | __WALL) == 0 &&
                       info.si_pid != 0;
    if (!ended) continue;
    ended_.push_back({tid, {info.si_code, info.si_status}});  // there is room
    tid = 0;
  }
}

int Seizing::seize(pid_t tid) {
  ended_.reserve(seized_.size());
  waiting = this;
  const int error_number = tracee::seize(tid);
  waiting = nullptr;
  if (error_number == 0) seized_.push_back(tid);
  return error_number;
}

std::vector<WaitEvent> Seizing::take_ended() {
  return std::exchange(ended_, {});
}

}  // namespace rtrace::tracee
