// How long a task has been on a processor: the scheduler's own account, which knows what a tracer cannot see
// from outside, namely when a task that was resumed really began to run, and when it stopped.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "rtrace/base/unique_fd.h"
#include "rtrace/tracee/process_memory.h"

namespace rtrace::tracee {

struct RunTimes {
  uint64_t ran = 0;     // ns on a processor; exact while the task is stopped
  uint64_t slices = 0;  // how often it was put on one
  bool operator==(const RunTimes&) const = default;
};

// proc(5), /proc/pid/schedstat: "ran waited slices".
std::optional<RunTimes> parse_run_times(std::string_view text);

// Of one task. The file is opened at the first question and kept.
class RunTimesFile {
 public:
  // nullopt where the kernel has no such file (CONFIG_SCHED_INFO), or it cannot be opened, or the task is
  // gone.
  std::optional<RunTimes> read(pid_t pid, pid_t tid);

 private:
  UniqueFd fd_;
  bool refused_ = false;
};

// The processor on which a stopped task was when it last came from the kernel, from its rseq area
// (linux/rseq.h, cpu_id; the C library registers one since glibc 2.35).
class RseqProcessor {
 public:
  // nullopt without an area, and before Linux 5.13, where PTRACE_GET_RSEQ_CONFIGURATION is new. `memory` is
  // that of the task's process. Where the area is is asked once: after an exec make a new one.
  std::optional<int> read(pid_t tid, const ProcessMemory& memory);

 private:
  VirtAddr at_{};
  bool refused_ = false;
};

}  // namespace rtrace::tracee
