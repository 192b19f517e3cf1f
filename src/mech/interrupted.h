// Threads that a signal has interrupted, whose handler runs: its frame on the stack says where they go on.
#pragma once

#include <cstdint>
#include <span>

#include "rtrace/base/address.h"

namespace rtrace::mech {

// `stack`: the words from the stack pointer up. Kernel arch/x86/include/asm/sigframe.h: flags and cs behind
// rip.
inline bool interrupted_in(Range range, std::span<const uint64_t> stack) {
  constexpr size_t kSelectors = 2;
  constexpr uint64_t kUserCode = 0x33;  // arch/x86/include/asm/segment.h, __USER_CS
  for (size_t at = 0; at + kSelectors < stack.size(); ++at)
    if (range.contains(VirtAddr{stack[at]}) && (stack[at + kSelectors] & 0xffff) == kUserCode) return true;
  return false;
}

}  // namespace rtrace::mech
