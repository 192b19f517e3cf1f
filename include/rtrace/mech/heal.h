// Putting back what a tracer that is gone has left in its tracees' code.
#pragma once

#include <cstddef>

#include "rtrace/mech/patch_table.h"

namespace rtrace::mech {

// Restores every live entry whose bytes are still the ones that were written. Returns how many.
size_t heal(PatchTable& table);

}  // namespace rtrace::mech
