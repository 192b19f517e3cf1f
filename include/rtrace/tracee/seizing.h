// Becoming the tracer of all threads of a process that may exec meanwhile.
//
// PTRACE_SEIZE waits for an exec that is under way (kernel/ptrace.c, ptrace_attach: cred_guard_mutex), and
// the exec waits until the threads that it has ended are reaped (fs/exec.c, de_thread), which is their
// tracer's to do: us, and we would wait for ever, and with us the process.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <ctime>
#include <vector>

#include "rtrace/tracee/stop.h"

namespace rtrace::tracee {

// One at a time, of the thread that made it. Until it ends, SIGALRM is its own.
class Seizing {
 public:
  // Of the threads of this process, whose first one an exec needs nobody to reap.
  explicit Seizing(pid_t pid);
  ~Seizing();
  Seizing(const Seizing&) = delete;
  Seizing& operator=(const Seizing&) = delete;

  // As tracee::seize(); but while it waits, those of the process's other threads are reaped that are ours and
  // have ended.
  int seize(pid_t tid);
  // What was reaped so since the last question: the ends of threads, which no wait will tell again.
  std::vector<WaitEvent> take_ended();

 private:
  static void on_alarm(int);
  void reap();
  void ask_for_alarm();

  pid_t pid_;
  std::vector<WaitEvent> ended_;
  struct sigaction before_ {};
  sigset_t mask_before_{};
  timer_t timer_{};
  bool has_timer_ = false;
};

}  // namespace rtrace::tracee
