#include "rtrace/tracee/seizing.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <utility>

#include "rtrace/tracee/proc_fs.h"
#include "rtrace/tracee/thread.h"

#ifndef sigev_notify_thread_id  // timer_create(2); glibc names it from 2.38 on
#define sigev_notify_thread_id _sigev_un._tid
#endif

namespace rtrace::tracee {
namespace {

// An exec that nobody holds up takes less.
constexpr itimerspec kOnce{{0, 0}, {0, 10'000'000}};

// Set while its thread stands in PTRACE_SEIZE, and nowhere else where a handler could disturb it.
std::atomic<Seizing*> waiting = nullptr;
static_assert(std::atomic<Seizing*>::is_always_lock_free);

}  // namespace

// The ticks come to the thread that waits, whichever others there are.
Seizing::Seizing(pid_t pid) : pid_(pid) {
  struct sigaction action {};
  action.sa_handler = on_alarm;
  action.sa_flags = SA_RESTART;  // the last tick may come behind ptrace(2), amid another call
  sigaction(SIGALRM, &action, &before_);
  sigset_t alarm;
  sigemptyset(&alarm);
  sigaddset(&alarm, SIGALRM);
  pthread_sigmask(SIG_UNBLOCK, &alarm, &mask_before_);
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = SIGALRM;
  event.sigev_notify_thread_id = gettid();
  has_timer_ = timer_create(CLOCK_MONOTONIC, &event, &timer_) == 0;
}

Seizing::~Seizing() {
  if (has_timer_) timer_delete(timer_);
  pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
  sigaction(SIGALRM, &before_, nullptr);
}

// ptrace(2) goes on with its waiting behind the handler (-ERESTARTNOINTR).
void Seizing::on_alarm(int) {
  const int error_number = errno;
  if (Seizing* seizing = waiting.load()) {
    seizing->reap();
    seizing->ask_for_alarm();  // only now: however many threads there are, ptrace(2) has its time between
  }
  errno = error_number;
}

// Whoever made them ours: those that seized threads create are from their first moment. Its thread stands in
// ptrace(2) and holds no lock, so that memory may be allocated here. A look comes first: a tracee's stop is
// told, and would be taken, whether or not one asks for stops (kernel/exit.c, wait_task_stopped). Who stops
// to end goes on with that look (look_at_ends), the first one too.
void Seizing::reap() {
  for (pid_t tid : read_tasks(pid_)) {
    const auto event = peek(tid);
    if (tid == pid_ || !event || !event->status.is_end()) continue;
    if (auto end = consume(tid, Block::no)) ended_.push_back(*end);
  }
}

void Seizing::ask_for_alarm() {
  if (has_timer_) timer_settime(timer_, 0, &kOnce, nullptr);
}

int Seizing::seize(pid_t tid) {
  waiting = this;
  ask_for_alarm();
  const int error_number = tracee::seize(tid);
  waiting = nullptr;
  return error_number;
}

std::vector<WaitEvent> Seizing::take_ended() {
  return std::exchange(ended_, {});
}

}  // namespace rtrace::tracee
