// Code of an object to which a function may return without having been called from there, and unwinders find
// their way through all the same: `add $n, %rsp; ret`; a `ret` behind padding; or a call through a register
// that functions preserve, in a function whose frame rbp leads to.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "rtrace/elf/elf_file.h"

namespace rtrace::unwind {

struct ReturnFrame {
  ElfAddr ret;        // what follows on the `add`: the return address
  uint32_t adds = 0;  // n
  bool operator==(const ReturnFrame&) const = default;
};

// The smallest that `fits`, in the object's .eh_frame: what holds at the last byte of the `add`, where
// unwinders look, is a frame of n + 8 bytes that all registers pass unchanged and that nothing has a say in.
// Not near a function's beginning, where a jump may come to stand. nullopt where there is none.
std::optional<ReturnFrame> find_return_frame(const std::shared_ptr<const elf::ElfFile>& file,
                                             const std::function<bool(uint32_t adds)>& fits);

// Those that follow on `room` bytes of what looks like padding, where unwinders find such a frame of n + 8
// bytes, n no less than 8; at the `ret` itself they find none, so that nothing that runs there goes on to it.
// The smallest first.
std::vector<ReturnFrame> find_padded_returns(const std::shared_ptr<const elf::ElfFile>& file, size_t room);

struct CallingFrame {
  ElfAddr ret;      // of the call, which may be but bytes of another instruction
  uint8_t reg = 0;  // the number of the register, as in instructions: rbx or r12 to r15
  bool operator==(const CallingFrame&) const = default;
};

// Those where at the byte in front of the call the caller's frame lies 16 bytes above rbp, rbp itself right
// there, below it r15 r14 r13 r12 rbx, as six pushes leave them; nothing has a say in it, and it is not near
// a function's beginning.
std::vector<CallingFrame> find_calling_frames(const std::shared_ptr<const elf::ElfFile>& file);

}  // namespace rtrace::unwind
