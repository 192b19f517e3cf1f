// What waitid(2) says of a tracee, as values with one meaning each. Each comment says what the engine owes
// the tracee next.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <cstdint>
#include <variant>

namespace rtrace::tracee {

// A SIGTRAP that may be one of our int3s: look at the registers. Resume with signal 0 if it was, with SIGTRAP
// if it is the program's own.
struct Trap {};
// A signal on its way to the program (signal-delivery-stop). Resume with that signal.
struct SignalDelivery {
  int signal = 0;
};
// The whole process stops (SIGSTOP, SIGTSTP, ...). PTRACE_LISTEN, so that it stays stopped and SIGCONT still
// works.
struct GroupStop {
  int signal = 0;
};
// PTRACE_EVENT_STOP with SIGTRAP: our PTRACE_INTERRUPT, the first stop of a new task, or the end of a
// group-stop. Resume with 0.
struct Interrupted {};
// A new task exists: fork, vfork or clone. PTRACE_GETEVENTMSG has its tid. Resume with 0.
struct NewTask {
  enum class Kind : uint8_t { fork, vfork, clone };
  Kind kind = Kind::clone;
};
// execve succeeded; the memory is new, all other threads are gone, the tid is the process's. Resume with 0.
struct Exec {};
// A PTRACE_SYSCALL stop, entry or exit; only within remote calls. Resume.
struct SyscallStop {};
// The task is gone; it must be reaped.
struct Exited {
  int status = 0;
};
struct Killed {
  int signal = 0;
  bool core_dumped = false;
};
// A stop that no option of ours asks for. Resume with 0.
struct OtherEvent {
  int event = 0;
};

using Stop = std::variant<Trap, SignalDelivery, GroupStop, Interrupted, NewTask, Exec, SyscallStop, Exited,
                          Killed, OtherEvent>;

// The two numbers in siginfo_t that matter: si_code (CLD_*) and si_status.
struct WaitStatus {
  int code = 0;
  int status = 0;
  bool operator==(const WaitStatus&) const = default;
  bool is_end() const { return code == CLD_EXITED || code == CLD_KILLED || code == CLD_DUMPED; }
};

// ptrace(2), "Stopped states". PTRACE_SEIZE is assumed throughout: group-stops and interrupts both are
// PTRACE_EVENT_STOP, told apart by the signal.
Stop classify(WaitStatus status);

struct WaitEvent {
  pid_t tid = 0;
  WaitStatus status;
};

}  // namespace rtrace::tracee
