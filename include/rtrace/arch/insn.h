// One decoded instruction. The only module with Capstone.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "rtrace/base/address.h"

namespace rtrace::arch {

inline constexpr size_t kMaxInsn = 15;

struct Insn {
  enum class Kind : uint8_t {
    other,          // falls through to the next instruction
    nop,            // nop of any length, pause, endbr64: no effect but on rip
    jump,           // jmp rel8 / rel32
    jump_indirect,  // jmp r/m64
    branch,         // jcc rel8 / rel32, xbegin
    loop,           // loop, loope, loopne, jrcxz: rel8 only
    call,           // call rel32
    call_indirect,  // call r/m64
    ret,            // ret, ret imm16
    int3,
    syscall,
    undefined,  // ud2, hlt, far jmp, far ret, iret: nothing follows
  };
  Kind kind = Kind::other;
  uint8_t length = 0;
  // Of jump, branch, loop, call: where it goes.
  std::optional<VirtAddr> target;
  // Of an instruction with a rip-relative operand: the address it refers to, and where its 4-byte
  // displacement stands in the bytes.
  std::optional<VirtAddr> rip_reference;
  uint8_t rip_displacement_offset = 0;
};

// Decodes the instruction at the front of `bytes`, which stands at `address`. nullopt where the bytes are no
// whole, valid instruction, or a near branch with an operand-size prefix, which Intel's and AMD's processors
// read differently.
std::optional<Insn> decode(std::span<const std::byte> bytes, VirtAddr address);

// "48 8b 05 10 00 00 00  mov rax, [rip + 0x10]", for refusals and for test failures.
std::string disassemble(std::span<const std::byte> bytes, VirtAddr address);

}  // namespace rtrace::arch
