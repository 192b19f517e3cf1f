// rtrace --repair -p PID.
#pragma once

#include "rtrace/session/options.h"

namespace rtrace::session {

// The exit status: 1 where a process could not be put right.
int repair_processes(const Options& options);

}  // namespace rtrace::session
