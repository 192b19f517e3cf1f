// Single steps of a thread through the few instructions of a copy of ours.
#pragma once

#include <sys/types.h>

#include <optional>

#include "image.h"
#include "rtrace/tracee/wait_queue.h"
#include "task.h"

namespace rtrace::session {

// A fault that the instruction has raised which the stopped thread stands at, nobody's signal.
bool is_own_fault(pid_t tid, int signal);

// Whether a step of the stopped thread harms nobody, whoever lives to see its end. A step's SIGTRAP would
// cost a program its own disposition of it, and a system call may take for ever. If we die in the middle the
// SIGTRAP is the handler's to swallow.
bool may_step_out(const Task& task, Image& image);

struct SteppedOut {
  std::optional<tracee::WaitEvent> own;  // a stop that is no step's, consumed
  bool out = false;
};
// Of a thread for which that is so, at a stop that is only peeked at where `signal` is what it is about to be
// given: that waits, with all that is told of it, and comes when the thread runs on (kernel/signal.c,
// ptrace_signal). All signals but its own faults wait meanwhile.
SteppedOut step_out_of_copy(pid_t tid, Image& image, int signal);

}  // namespace rtrace::session
