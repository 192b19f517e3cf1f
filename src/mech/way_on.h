// Where threads go on that stand in the code that a wrapper's jump is about to overwrite. Pure.
#pragma once

#include "rtrace/arch/prologue.h"
#include "rtrace/base/address.h"
#include "rtrace/mech/breakpoint_site.h"

namespace rtrace::mech {

// The program's own address for a place in the site's copy. 0: there is none with the same stack.
VirtAddr place_in_program(VirtAddr pc, const BreakpointSite& site);

// The same state of the program in `prologue`, whose copy runs at `to`, or behind what that covers; `pc`
// itself where the thread may stay, or where there is no such place. `site` is the breakpoint at the
// function's entry: who stands there has not met it, and one byte on its SIGTRAP may still be to come; who
// stands in its copy has.
VirtAddr way_on(VirtAddr pc, const BreakpointSite& site, const arch::Prologue& prologue, VirtAddr to);

}  // namespace rtrace::mech
