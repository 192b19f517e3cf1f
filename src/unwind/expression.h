// DWARF expressions as call frame information uses them (DWARF 5, 2.5 and 6.4.2).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "rtrace/base/memory.h"
#include "rtrace/unwind/registers.h"

namespace rtrace::unwind {

// The top of the stack at the expression's end; `first`, where given, is on it at the beginning. nullopt
// where it cannot be told: a register that is not known, memory that cannot be read, an operation that has no
// place here, a loop.
std::optional<uint64_t> evaluate(std::span<const std::byte> expression, const Registers& registers,
                                 const Memory& memory, std::optional<uint64_t> first = {});

}  // namespace rtrace::unwind
