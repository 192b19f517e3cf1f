// Keeps the engine on the processor of the thread that hits, as long as that thread stays there: a wake-up
// across processors costs several times one on the same. It often does not stay: the scheduler moves a thread
// that is woken from a busy processor to an idle one. Then the engine runs free again, and stays awake for
// the next stop (rtrace/tracee/spin.h).
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "rtrace/session/options.h"
#include "rtrace/tracee/spin.h"

namespace rtrace::session {

// The decision. Pure.
class CpuChoice {
 public:
  static constexpr unsigned kAgree = 4;    // samples in a row, before it follows
  static constexpr unsigned kStrikes = 2;  // samples elsewhere, before it lets go
  static constexpr uint64_t kFirstPause = 250'000'000, kLongestPause = 8'000'000'000;  // ns

  // A thread hit on `cpu`, at `now` (monotonic ns). Where the engine belongs from here on; nullopt: anywhere.
  std::optional<int> seen(int cpu, uint64_t now);
  // Following does not pay for now.
  void let_go(uint64_t now);

 private:
  std::optional<int> followed_;
  int last_ = -1;
  unsigned same_ = 0, strikes_ = 0;
  uint64_t not_before_ = 0;
  uint64_t pause_ = kFirstPause;
};

class CpuFollower {
 public:
  explicit CpuFollower(Options::Cpu choice);

  // There is work to be done while the tracees run.
  void run_free(uint64_t now);

  // At a hit of a thread that stands stopped. Asks /proc now and then, sooner where the stop came late though
  // the thread was here, and then says where it is; moves the calling thread only to processors that it might
  // run on at the beginning.
  std::optional<tracee::Spin::Tracee> hit(pid_t pid, pid_t tid, uint64_t now, bool late);

 private:
  void go(std::optional<int> cpu);

  cpu_set_t allowed_{};
  bool wanted_;  // behind what finding it out fills
  std::optional<int> here_;
  uint64_t sampled_ = 0;  // when
  bool was_here_ = true;
  CpuChoice choice_;
};

}  // namespace rtrace::session
