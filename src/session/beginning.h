// Programs that a child in its parent's memory is about to begin, where it is not followed and rtrace has no
// CAP_SYS_PTRACE: what their files give they are given only untraced.
#pragma once

#include "image.h"
#include "task.h"

namespace rtrace::session {

// Whether the stopped task is to be given what that file gives, and nobody has asked for its calls. `name` is
// what execve(2) is given, in that memory.
bool begins_privileged(const Task& task, Image& image, VirtAddr name);
// Whether the system call does that at whose stop it stands.
bool begins_by_call(const Task& borrower, const arch::Regs& regs);
// From now on it stops at its system calls, where no probe would show it: it was under way when rtrace came,
// or begins programs in a way of its own.
void await_exec(Task& borrower);

}  // namespace rtrace::session
