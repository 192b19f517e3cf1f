// rtrace --repair -p PID.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "rtrace/session/options.h"

namespace rtrace::session {

// The exit status: 1 where a process could not be put right.
int repair_processes(const Options& options);

// What is said of processes that pages of ours stay in; `pids` is not empty.
std::string describe_staying_pages(const std::vector<pid_t>& pids, const std::string& why);

}  // namespace rtrace::session
