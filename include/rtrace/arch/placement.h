// Where to put a page so that rel32 reaches: arithmetic on ranges, no process.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "rtrace/base/address.h"

namespace rtrace::arch {

inline constexpr uint64_t kPageSize = 4096;
// Reach of a rel32 with room to spare for instruction lengths.
inline constexpr uint64_t kNear = (uint64_t{1} << 31) - (uint64_t{1} << 16);

// A free, page-aligned gap of `size` bytes (a multiple of the page size) of which every byte is within kNear
// of every byte of `near`; the nearest such gap. `taken` is the tracee's memory map, sorted by address, not
// overlapping. Stays at or above `lowest` (vm.mmap_min_addr), below 2^47 - one page, and keeps a guard of
// `guard` bytes from a range that grows downwards (a stack) as the caller lists it in `taken`. nullopt where
// there is none.
std::optional<Range> find_gap(const std::vector<Range>& taken, Range near, uint64_t size,
                              VirtAddr lowest = {0x10000});

}  // namespace rtrace::arch
