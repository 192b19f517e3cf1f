// What a wrapper hands on of the arguments in memory.
#pragma once

#include <cstdint>

#include "rtrace/agent/recorder.h"

namespace rtrace::agent {

// How many bytes of them, a multiple of 16: as many as the function may take by the plan and by its format,
// but none that cannot be read. A caller near the end of its stack has fewer. `control` may be empty, as in a
// child by fork.
uint64_t passed_bytes(const Control& control, const WrapperFrame& frame, Passed passed);

}  // namespace rtrace::agent
