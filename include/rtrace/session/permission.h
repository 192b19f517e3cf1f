// Why a process cannot be traced, with the fix.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "rtrace/tracee/proc_fs.h"

namespace rtrace::session {

// What stands between us and a process: facts only, so that the words for them are a pure function.
struct Standing {
  std::optional<tracee::StatusFields> process;  // nullopt where there is none
  bool ourselves = false;                       // engine or front end
  bool leaderless = false;                      // its main thread has ended, others run
  pid_t thread = 0;                             // whose tracer it is: a tracer may hold one thread only
  pid_t tracer = 0;                             // 0: none, or ourselves
  std::string tracer_name;
  bool tracer_leaves = false;  // it is an rtrace-engine whose visible process has died: it is about to detach
  bool dumpable = true;
  std::string yama_scope;   // empty where Yama is not in the kernel
  tracee::StatusFields us;  // uid and capabilities
};

Standing standing_of(pid_t pid);

// What can be said before trying; empty where nothing stands against it.
std::string why_not_attachable(pid_t pid, const Standing& standing);
// Whether it may look otherwise in a moment: the process has ended, or another thread of it calls exec and is
// about to be its first one.
bool first_thread_ends(pid_t pid, const Standing& standing);
// Why /proc/PID/mem of a process that we trace all the same cannot be opened; empty where nothing is known.
std::string why_memory_is_closed(const Standing& standing);
// After PTRACE_SEIZE has failed with this errno.
std::string why_seize_failed(const Standing& standing, int error_number);

}  // namespace rtrace::session
