// Code of an object to which a function may return without having been called from there, and unwinders find
// their way through all the same: `add $n, %rsp; ret`, or `add $n, %rsp; pop %rbx; pop %rbp; pop %r12; pop
// %r13; pop %r14; pop %r15; ret`.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "rtrace/elf/elf_file.h"

namespace rtrace::unwind {

struct ReturnFrame {
  ElfAddr ret;        // what follows on the `add`: the return address
  uint32_t adds = 0;  // n
  bool pops = false;
  bool operator==(const ReturnFrame&) const = default;
};

// The smallest that `fits`, in the object's .eh_frame: what holds at the last byte of the `add`, where
// unwinders look, is a frame of n + 8 bytes, and 48 more with pops, that all registers pass unchanged but
// those that it saves for the pops, and that nothing has a say in. Not near a function's beginning, where a
// jump may come to stand. nullopt where there is none.
std::optional<ReturnFrame> find_return_frame(const std::shared_ptr<const elf::ElfFile>& file,
                                             const std::function<bool(uint32_t adds, bool pops)>& fits);

}  // namespace rtrace::unwind
