// Instructions that need no out-of-line copy: their whole effect is on registers, or on one word that can be
// read.
#pragma once

#include <optional>
#include <span>

#include "rtrace/arch/regs.h"
#include "rtrace/base/address.h"
#include "rtrace/base/memory.h"

namespace rtrace::arch {

// How to pass one site without running its instruction. Made once when the site is installed, applied at each
// hit.
struct Emulation {
  enum class Kind : uint8_t {
    skip,          // endbr64, nop: rip moves on
    jump,          // jmp rel: rip = target
    jump_through,  // jmp *slot(%rip): rip = the word at `target`
    add_to_sp,     // add imm, %rsp: rsp and the arithmetic flags
    sub_from_sp,   // sub imm, %rsp: not the same as adding the negative, for CF, AF and OF differ
    ret,           // ret, ret imm16: rip = the word at rsp
  };
  Kind kind = Kind::skip;
  uint8_t length = 0;     // of the instruction
  VirtAddr target;        // jump, jump_through
  int64_t immediate = 0;  // add_to_sp, sub_from_sp: the operand as it stands; ret: extra bytes popped
  bool operator==(const Emulation&) const = default;

  // True where applying it reads no memory: such sites cost nothing but the SETREGS that a hit needs anyway.
  bool registers_only() const { return kind != Kind::jump_through && kind != Kind::ret; }
};

// nullopt for what must run out of line. One-byte instructions but `ret` are never emulated: rip = site + 1
// must keep meaning "not yet passed" (design: the engine may die between a stop and its SETREGS).
std::optional<Emulation> emulation_for(std::span<const std::byte> bytes, VirtAddr address);

// Puts the registers of a thread that stands at `address` (the site itself, not one past it) where they would
// be after the instruction. False, with the registers untouched, where a needed word cannot be read, leads
// out of user space (the instruction itself has to fault, out of line), or is address + 1. `ret` does not pop
// a shadow stack: threads that have one (x86_Thread_features in /proc/PID/status, Linux 6.6) must run it out
// of line.
bool emulate(const Emulation& emulation, VirtAddr address, Regs& regs, const Memory& memory);

}  // namespace rtrace::arch
