// System calls (-S): stops at their entries and exits become records.
//
// A call that our own interrupt ends is not over: the kernel begins it again, and it stays the one call that
// it is for the program. Whether an interruption was ours or a signal's shows at the thread's next stop, so
// that a result that says "interrupted" waits until then.
#pragma once

#include <array>
#include <unordered_map>
#include <vector>

#include "backtraces.h"
#include "rtrace/tracee/thread.h"
#include "task.h"

namespace rtrace::session {

class SyscallTracer {
 public:
  explicit SyscallTracer(Services& services) : services_(services), backtraces_(services.objects) {}

  // The thread is stopped. What there is to say waits for report().
  void observe(Task& task, const tracee::SyscallInfo& info, const arch::Regs& regs);
  void report(Task& task);
  // A call that is carried out in the thread's place, which stands where a function is called that comes to
  // it: its entry, and when it has succeeded its exit. taken_back(): it is to be made after all.
  void observe_carried_out(Task& task, uint64_t number, const std::array<uint64_t, 6>& arguments,
                           const arch::Regs& regs);
  void carried_out(Task& task, const arch::Regs& regs);
  void taken_back(Task& task);

  // The thread's next stop was none of ours: an interrupted call has its result.
  void settle(Task& task);
  // It was: the call goes on, unless a signal with a handler comes before it does: handled().
  static void goes_on(Task& task);
  void handled(Task& task);
  // execve(2) has succeeded in this thread: the call is over for it, and returns in the new program. That of
  // the command itself is one that nobody saw begin.
  static std::optional<OpenSyscall> take_exec(Task& task);
  void executed(Task& task, const OpenSyscall& open);
  // The thread has ended.
  void abandon(Task& task);
  // The trace ends first. Before the calls that it was made in are left.
  void leave_open(Task& task);

 private:
  void launched(Task& task);
  uint64_t time_of(const Task& task) const;
  uint64_t time_since(const Task& task, const OpenSyscall& open) const;
  void report_abandoned(Task& task, uint64_t duration, bool still_open);
  static bool is_resumed(Task& task, const tracee::SyscallInfo& info, const arch::Regs& regs);
  static void count_inside(Task& task, uint64_t nanoseconds);
  Probe& probe_of(uint64_t number, uint32_t architecture);
  void enter(Task& task, const tracee::SyscallInfo& info, const arch::Regs& regs);
  void leave(Task& task, int64_t result, const arch::Regs& regs);

  Services& services_;
  std::unordered_map<uint64_t, Probe*> probes_;
  std::vector<decode::CallReturned> returned_;
  std::vector<decode::CallEntered> entered_;
  std::optional<unwind::Backtrace> trace_;  // of what is entered
  Backtraces backtraces_;
  event::Timestamp now_;
  // Apart from the numbers of library calls.
  uint64_t next_call_ = uint64_t{1} << 62;
};

}  // namespace rtrace::session
