// Takes events in a fair order.
//
// waitid(P_ALL) walks the tracees in a fixed order, so with peeked stops two busy threads at the front of the
// list can keep all others waiting for ever. Now and then the queue therefore asks each task by itself and
// serves whoever stands stopped before it asks for any again. The interval doubles while nobody was found
// waiting, so that the common case costs nothing.
#pragma once

#include <sys/types.h>

#include <deque>
#include <optional>
#include <vector>

#include "rtrace/tracee/spin.h"
#include "rtrace/tracee/thread.h"

namespace rtrace::tracee {

class WaitQueue {
 public:
  // Where the tracees run that stop now: whether it pays to stay awake for them.
  void set_tracee(Spin::Tracee where) { spin_.set_tracee(where); }
  // Whether the event that came last did so while we were awake: nobody had to be woken for it.
  bool found_awake() const { return found_awake_; }

  // The next event, peeked. `tasks` are those that are traced now. PeekAnswer as peek_any's.
  template <typename Tasks>
  PeekAnswer next(const Tasks& tasks, Block block) {
    found_awake_ = true;
    if (auto event = take_waiting()) return {event, false};
    if (++served_ >= interval_ && tasks.size() > 1) {
      size_t found = 0;
      for (const auto& [tid, task] : tasks) found += ask(tid);
      settle(found, tasks.size());
      if (auto event = take_waiting()) return {event, false};
    }
    const PeekAnswer answer = spin_.peek(block);
    found_awake_ = spin_.found_awake();
    return answer;
  }
  // The task was handled by other means (a stop-all): what was seen of it is void.
  void forget(pid_t tid);

 private:
  static constexpr size_t kLongest = 1024;
  std::optional<WaitEvent> take_waiting();
  size_t ask(pid_t tid);
  void settle(size_t found, size_t tasks);

  Spin spin_;
  bool found_awake_ = false;
  std::deque<WaitEvent> waiting_;
  size_t served_ = 0;
  size_t interval_ = 8;
};

}  // namespace rtrace::tracee
