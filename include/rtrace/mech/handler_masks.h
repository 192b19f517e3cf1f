// Handlers of the program's that run with all signals blocked (a full sa_mask, as those of libuv and
// HotSpot): while int3s of ours stand SIGTRAP is left open in them, for one that meets it blocked kills where
// no tracer lives (kernel/signal.c, force_sig_info_to_task).
#pragma once

#include <cstdint>
#include <functional>

#include "rtrace/arch/regs.h"
#include "rtrace/mech/bridge.h"
#include "rtrace/tracee/process_memory.h"

namespace rtrace::mech {

// Opens those among `handlers` (signals by bit, as /proc/PID/status has them) that block all. `note` is told
// which have been, and one that is about to be. All of the process's threads must stand, and none where it is
// about to set an action, or to look at one that it was told.
void open_handler_masks(const BridgeSite& at, uint64_t handlers, const std::function<void(uint64_t)>& note);
// Whether one of them does. One thread stands.
bool has_handler_that_blocks_all(const BridgeSite& at, uint64_t handlers);
// Why some cannot be closed yet.
inline constexpr const char* kHandlersOpen =
    "a thread may be setting a handler, and others run with SIGTRAP open";
// Of those that have been opened, each that blocks all but SIGTRAP blocks that too; the threads as above. If
// SIGTRAP is among them, and has its default action, it is ignored: no thread must have met an int3 that it
// is still to stop for.
void close_handler_masks(const BridgeSite& at, uint64_t opened);

// Of a thread that stands at the entry of an rt_sigaction() by the C library, for another signal than
// SIGTRAP, and may be about to set such a handler: it sets an open one. Its bit, or 0.
uint64_t open_handler_mask(const arch::Regs& regs, const tracee::ProcessMemory& memory);
// At that call's end, also for SIGTRAP: an action of one of these signals that it has been told is as the
// program has set it.
void close_told_mask(const arch::Regs& regs, const tracee::ProcessMemory& memory, uint64_t opened);

// Which signal's action the C library's call sets, by bit; 0: it only asks.
uint64_t signal_that_is_set(const arch::Regs& regs);

}  // namespace rtrace::mech
