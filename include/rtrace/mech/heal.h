// Putting back what a tracer that is gone has left in its tracees' code.
#pragma once

#include <cstddef>

#include "rtrace/mech/patch_table.h"

namespace rtrace::mech {

// Takes every int3 out that still stands, without stopping anything: what is left to do where repair()
// cannot; and lowers the semaphores that the table tells of. Longer entries are code on loan, which a thread
// may be in the middle of; they stay. Returns how many. Those where the handler stands in for a call
// (Patch::stands_in) are repair()'s, unless it could not.
enum class Standing : bool { all, but_stand_ins };
size_t heal(PatchTable& table, Standing which);

}  // namespace rtrace::mech
