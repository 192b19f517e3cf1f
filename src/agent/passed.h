// What a wrapper hands on of the arguments in memory.
#pragma once

#include <cstdint>

#include "rtrace/agent/recorder.h"

namespace rtrace::agent {

// How many bytes the function takes by the plan, or by its format. `control` may be empty, as in a child by
// fork.
uint64_t told_bytes(const Control& control, const WrapperFrame& frame, Passed passed);

// Whole words of what is handed on: as much as that, but none that cannot be read. Where a format tells of
// them no less than kLeastOfFormats: it may be another kind of format than the prototype has it for.
inline constexpr uint64_t kLeastOfFormats = 256;
uint64_t passed_bytes(const Control& control, const WrapperFrame& frame, Passed passed);

}  // namespace rtrace::agent
