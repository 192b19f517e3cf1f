// What a wrapper hands on of the arguments in memory.
#pragma once

#include <cstdint>

#include "rtrace/agent/recorder.h"

namespace rtrace::agent {

// How many bytes of them, whole words: as many as the function takes by the plan, or by its format, but none
// that cannot be read. `control` may be empty, as in a child by fork.
uint64_t passed_bytes(const Control& control, const WrapperFrame& frame, Passed passed);

}  // namespace rtrace::agent
