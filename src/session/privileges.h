// What a program's file gives to who begins it (execve(2)): its set-user-ID and set-group-ID bits, and its
// capabilities. The kernel gives nothing of it to a task whose tracer has not CAP_SYS_PTRACE
// (security/commoncap.c).
#pragma once

#include <sys/types.h>

#include "reporter.h"
#include "rtrace/base/memory.h"
#include "rtrace/tracee/proc_fs.h"

namespace rtrace::session {

// Whether those whom this process traces are given it all the same.
bool tracing_leaves_privileges();
// Whether a task would be given anything by the file whose name lies in its memory there.
bool may_gain_privileges(pid_t tid, const Memory& memory, VirtAddr name);
// Of a traced process that has just begun its program: says what that has not given to it.
void tell_withheld(Reporter& reporter, pid_t pid, const tracee::StatusFields& status);

}  // namespace rtrace::session
