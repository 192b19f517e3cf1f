// The process that traces. Runs in its own process group and never touches the terminal.
#pragma once

#include <sys/types.h>

#include "rtrace/session/options.h"
#include "rtrace/session/shared_state.h"

namespace rtrace::session {

struct EngineWiring {
  int socket = -1;    // to the front end
  int event_fd = -1;  // wakes the front end's writer
  pid_t front_end = 0;
};

// Returns when nothing is traced any more; false where an error has ended it, which it has said.
bool run_engine(const Options& options, Shared& shared, const EngineWiring& wiring);

}  // namespace rtrace::session
