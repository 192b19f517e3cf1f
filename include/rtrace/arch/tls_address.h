// Functions that do nothing but return the address of a thread-local variable, such as __errno_location of
// every C library: what they would answer, found without running them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "rtrace/base/address.h"
#include "rtrace/base/memory.h"

namespace rtrace::arch {

// The distance from the thread pointer (fs_base) to what the function whose code begins with `code` at
// `address` returns. `memory` has its GOT slots. nullopt where it does anything but move, add and return, or
// where a slot that it needs is not filled yet.
std::optional<int64_t> tls_offset_returned(std::span<const std::byte> code, VirtAddr address,
                                           const Memory& memory);

}  // namespace rtrace::arch
