// Moving the displaced instruction of a breakpoint site. Bytes and two addresses go in, bytes or a refusal
// come out.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "rtrace/arch/insn.h"
#include "rtrace/arch/regs.h"
#include "rtrace/base/address.h"

namespace rtrace::arch {

// The state of the program when a thread stands at an offset inside a copy: where it would stand in its own
// code, and what has to be added to rsp to get there (a `call` is copied as more than one instruction). Used
// before a signal is delivered, at detach and by backtraces.
struct ResumePoint {
  uint8_t offset = 0;    // in the copy
  VirtAddr address;      // in the program
  int8_t sp_adjust = 0;  // add to rsp
  bool operator==(const ResumePoint&) const = default;
};

struct OutOfLine {
  std::vector<std::byte> code;  // the instruction, relocated, and the jump back; runs at `to`
  std::vector<ResumePoint>
      points;  // one for each instruction boundary in `code`, by offset; the first is {0, from, 0}
  bool operator==(const OutOfLine&) const = default;
};

struct Refused {
  std::string reason;  // quotes the instruction
};

inline constexpr size_t kMaxOutOfLine = 64;

// The first instruction of `bytes`, which stands at `from`, rewritten to run at `to` with the same effect,
// stack contents included (a call pushes the address behind its original, not behind its copy), followed by a
// jump to the instruction after it. rip-relative operands and rel8/rel32 targets are refitted; where a target
// is out of rel32 range an absolute jump through memory behind the code (`jmp *0(%rip)`) is used, and a
// rip-relative operand out of range is refused. No register, flag or stack byte is used that the original
// does not use.
std::variant<OutOfLine, Refused> relocate(std::span<const std::byte> bytes, VirtAddr from, VirtAddr to);

// An upper bound of code.size() for the instruction, for allocation before `to` is known.
size_t out_of_line_bound(std::span<const std::byte> bytes);

}  // namespace rtrace::arch
