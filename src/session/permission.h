// Why a process cannot be traced, with the fix.
#pragma once

#include <sys/types.h>

#include <string>

namespace rtrace::session {

// What can be said before trying; empty where nothing stands against it.
std::string why_not_attachable(pid_t pid);
// After PTRACE_SEIZE has failed with this errno.
std::string why_seize_failed(pid_t pid, int error_number);

}  // namespace rtrace::session
