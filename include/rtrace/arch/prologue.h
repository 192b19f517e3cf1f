// Making room for a jump at a function's entry: the instructions that it overwrites, moved elsewhere.
// Pure, as relocate() is.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <variant>

#include "rtrace/arch/jump.h"
#include "rtrace/arch/relocate.h"
#include "rtrace/base/address.h"

namespace rtrace::arch {

struct EntryCode {
  // The program's own, without an int3 of ours, from `from` to where something else begins (the next symbol,
  // the end of the text): what is behind these is not touched. The first kEntryWindow are enough.
  std::span<const std::byte> bytes;
  VirtAddr from;
  // Of the function, without the padding behind it. bytes.size() where it is not known.
  uint64_t size = 0;
  size_t jump = kNearJump;  // or kShortJump
};

// Whether `code`, which stands at `from`, is one function from an instruction's beginning to its last, which
// does not go on behind it: what is there is entered by jumps and calls only. False where it cannot be told.
bool ends_for_good(std::span<const std::byte> code, VirtAddr from);
// Whether at least `size` bytes are padding from the first on: nops, int3.
bool is_padding(std::span<const std::byte> code, VirtAddr from, size_t size);

// endbr64, four bytes of short instructions, and the longest one.
inline constexpr size_t kEntryWindow = 4 + kNearJump - 1 + kMaxInsn;

struct Prologue {
  VirtAddr at;  // where the jump goes: `from`, or behind the endbr64 there, which stays
  uint8_t covered =
      0;  // the bytes from `at` on whose code is in the copy; the jump overwrites the first of them
  // The instructions, and a jump to at + covered where they go on there. Entered at its first byte with the
  // registers and the stack that the function is entered with. `points` say where in the program's own code a
  // thread would stand: a thread may be sent there only when the original bytes are back, for most of those
  // addresses lie inside the jump.
  OutOfLine copy;
  // The last instruction is a call, which is made of push and jmp: its return address is the program's own,
  // but a shadow stack has no entry for it. Not for threads that have one (x86_Thread_features in
  // /proc/PID/status, Linux 6.6).
  bool calls = false;
  bool operator==(const Prologue&) const = default;

  Range range() const { return {at, at + covered}; }
};

// Where in the copy a thread goes on that stands at `pc` of the program's own code, by offset. nullopt where
// `pc` begins none of the moved instructions.
std::optional<uint8_t> offset_in_copy(const Prologue& prologue, VirtAddr pc);

inline constexpr size_t kMaxPrologue = 128;

// The beginning of a function rewritten to run at `to`, with the effects of the original, as relocate() does
// it for one instruction. Branches into what is moved, the function's first byte included, stay in the copy.
// Refused, besides what relocate() refuses:
//  - fewer bytes than the jump has up to the end of `entry.bytes`, the padding (nops, int3) behind the
//  function
//    included;
//  - a call that returns to inside the jump, a branch to inside one of the instructions;
//  - code behind a jump or a return that no branch among the first instructions leads to: how it is reached
//    cannot be seen;
//  - a system call as the last of them, for the kernel restarts one by taking rip two bytes back;
//  - an int3 of the program's own, whose SIGTRAP would show the copy's address.
// Whether code elsewhere branches to inside the covered bytes is another question: see branches.h.
std::variant<Prologue, Refused> relocate_prologue(const EntryCode& entry, VirtAddr to);

}  // namespace rtrace::arch
