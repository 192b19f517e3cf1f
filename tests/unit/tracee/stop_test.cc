#include "rtrace/tracee/stop.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/ptrace.h>

namespace rtrace::tracee::stop_test {
namespace {

struct Name {
  std::string operator()(Trap) const { return "trap"; }
  std::string operator()(SignalDelivery stop) const { return fmt::format("signal {}", stop.signal); }
  std::string operator()(GroupStop stop) const { return fmt::format("group-stop {}", stop.signal); }
  std::string operator()(Interrupted) const { return "interrupted"; }
  std::string operator()(NewTask stop) const {
    return fmt::format("new task {}", static_cast<int>(stop.kind));
  }
  std::string operator()(Exec) const { return "exec"; }
  std::string operator()(SyscallStop) const { return "system call"; }
  std::string operator()(Exited stop) const { return fmt::format("exited {}", stop.status); }
  std::string operator()(Killed stop) const {
    return fmt::format("killed {}{}", stop.signal, stop.core_dumped ? " core" : "");
  }
  std::string operator()(OtherEvent stop) const { return fmt::format("event {}", stop.event); }
};

TEST(Classify, EachStatusHasOneMeaning) {
  constexpr auto event = [](int number, int signal = SIGTRAP) { return number << 8 | signal; };
  struct Row {
    WaitStatus status;
    std::string expected;
  };
  const Row rows[] = {
      {{CLD_EXITED, 0}, "exited 0"},
      {{CLD_EXITED, 255}, "exited 255"},
      {{CLD_KILLED, SIGKILL}, "killed 9"},
      {{CLD_DUMPED, SIGSEGV}, "killed 11 core"},
      {{CLD_TRAPPED, SIGTRAP}, "trap"},
      {{CLD_TRAPPED, SIGUSR1}, fmt::format("signal {}", SIGUSR1)},
      {{CLD_TRAPPED, SIGSTOP}, fmt::format("signal {}", SIGSTOP)},
      {{CLD_TRAPPED, 64}, "signal 64"},
      {{CLD_TRAPPED, SIGTRAP | 0x80}, "system call"},
      {{CLD_TRAPPED, event(PTRACE_EVENT_STOP)}, "interrupted"},
      {{CLD_TRAPPED, event(PTRACE_EVENT_STOP, SIGSTOP)}, fmt::format("group-stop {}", SIGSTOP)},
      {{CLD_STOPPED, event(PTRACE_EVENT_STOP, SIGTSTP)}, fmt::format("group-stop {}", SIGTSTP)},
      {{CLD_TRAPPED, event(PTRACE_EVENT_STOP, SIGTTIN)}, fmt::format("group-stop {}", SIGTTIN)},
      {{CLD_TRAPPED, event(PTRACE_EVENT_FORK)}, "new task 0"},
      {{CLD_TRAPPED, event(PTRACE_EVENT_VFORK)}, "new task 1"},
      {{CLD_TRAPPED, event(PTRACE_EVENT_CLONE)}, "new task 2"},
      {{CLD_TRAPPED, event(PTRACE_EVENT_EXEC)}, "exec"},
      {{CLD_TRAPPED, event(PTRACE_EVENT_EXIT)}, fmt::format("event {}", PTRACE_EVENT_EXIT)},
      {{CLD_TRAPPED, event(PTRACE_EVENT_VFORK_DONE)}, fmt::format("event {}", PTRACE_EVENT_VFORK_DONE)},
      {{CLD_TRAPPED, event(PTRACE_EVENT_SECCOMP)}, fmt::format("event {}", PTRACE_EVENT_SECCOMP)},
  };
  for (const Row& row : rows)
    EXPECT_EQ(std::visit(Name{}, classify(row.status)), row.expected)
        << row.status.code << " " << row.status.status;
}

TEST(Classify, OnlyEndsAreEnds) {
  struct Row {
    int code;
    bool end;
  };
  const Row rows[] = {{CLD_EXITED, true},   {CLD_KILLED, true},   {CLD_DUMPED, true},
                      {CLD_TRAPPED, false}, {CLD_STOPPED, false}, {CLD_CONTINUED, false}};
  for (const Row& row : rows) EXPECT_EQ((WaitStatus{row.code, 0}).is_end(), row.end) << row.code;
}

}  // namespace
}  // namespace rtrace::tracee::stop_test
