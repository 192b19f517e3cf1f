#include "rtrace/tracee/wait_queue.h"

#include <algorithm>

namespace rtrace::tracee {

std::optional<WaitEvent> WaitQueue::take_waiting() {
  if (waiting_.empty()) return std::nullopt;
  WaitEvent event = waiting_.front();
  waiting_.pop_front();
  return event;
}

size_t WaitQueue::ask(pid_t tid) {
  auto event = peek(tid);
  if (!event) return 0;
  waiting_.push_back(*event);
  return 1;
}

void WaitQueue::settle(size_t found, size_t tasks) {
  served_ = 0;
  // One that was found may be just the next in turn; more than one means that some would have waited.
  interval_ = found > 1 ? tasks : std::min(interval_ * 2, kLongest);
}

void WaitQueue::forget(pid_t tid) {
  std::erase_if(waiting_, [tid](const WaitEvent& event) { return event.tid == tid; });
}

}  // namespace rtrace::tracee
