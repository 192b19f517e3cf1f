// Calls that a function makes as the last thing it does, by `jmp *%reg`: where it calls one several times a
// compiler may keep that one's address in a register.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "rtrace/arch/regs.h"
#include "rtrace/base/address.h"

namespace rtrace::arch {

// Each `jmp *%reg` of the function at which the register may hold what a `mov slot(%rip), %reg` of it has
// loaded, moved to another register or to the stack and back where need be, on some way that its code shows.
// A jump of a switch is none: its register has been computed. `function` stands at `begin`, where an
// instruction starts; what is no instruction ends it.
std::vector<VirtAddr> find_register_jumps(std::span<const std::byte> function, VirtAddr begin, VirtAddr slot);

// The register by which a `jmp *%reg` or a `call *%reg` goes, as instructions number them: rax, rcx, rdx,
// rbx, rsp, rbp, rsi, rdi, r8 to r15 (SDM volume 2, table 2-2). nullopt where the instruction is neither.
std::optional<uint8_t> branch_register(std::span<const std::byte> insn);
// `number` < 16.
uint64_t register_of(const Regs& regs, uint8_t number);
// Whether a function leaves it as it was, but for rsp (psABI, figure 3.4).
constexpr bool is_preserved(uint8_t number) {
  return number == 3 || number == 5 || (number >= 12 && number < 16);
}

}  // namespace rtrace::arch
