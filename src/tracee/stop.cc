#include "rtrace/tracee/stop.h"

#include <sys/ptrace.h>

namespace rtrace::tracee {
namespace {

constexpr int kSyscallStop = SIGTRAP | 0x80;  // PTRACE_O_TRACESYSGOOD

Stop classify_event(int event, int signal) {
  switch (event) {
    case PTRACE_EVENT_STOP:
      if (signal == SIGTRAP) return Interrupted{};
      return GroupStop{signal};
    case PTRACE_EVENT_FORK:
      return NewTask{NewTask::Kind::fork};
    case PTRACE_EVENT_VFORK:
      return NewTask{NewTask::Kind::vfork};
    case PTRACE_EVENT_CLONE:
      return NewTask{NewTask::Kind::clone};
    case PTRACE_EVENT_EXEC:
      return Exec{};
    default:
      return OtherEvent{event};
  }
}

}  // namespace

Stop classify(WaitStatus status) {
  switch (status.code) {
    case CLD_EXITED:
      return Exited{status.status};
    case CLD_KILLED:
      return Killed{status.status, false};
    case CLD_DUMPED:
      return Killed{status.status, true};
    default:
      break;
  }
  // si_status of a ptrace-stop is the whole exit code: the signal in the low byte, the event above it.
  const int event = status.status >> 8;
  const int signal = status.status & 0xff;
  if (event != 0) return classify_event(event, signal);
  if (signal == kSyscallStop) return SyscallStop{};
  if (signal == SIGTRAP) return Trap{};
  return SignalDelivery{signal};
}

}  // namespace rtrace::tracee
