// Runs the instructions of call frame information up to one place in the code (DWARF 5, 6.4.2).
#pragma once

#include "frame_entry.h"
#include "rtrace/unwind/frame_table.h"

namespace rtrace::unwind {

// The row that holds at `address`; nullopt where an instruction is unknown or makes no sense.
std::optional<Row> run_program(const FrameEntry& entry, ElfAddr address);

}  // namespace rtrace::unwind
