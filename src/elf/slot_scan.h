// Finds `call *slot(%rip)`, `jmp *slot(%rip)` and `mov slot(%rip), %reg` in code bytes, these last told apart
// by whether a call by that register stands behind them, without decoding instructions: an opcode (ff 15, ff
// 25, 8b) whose 32-bit displacement leads to a known GOT slot is hardly ever anything else, and what it is
// the reader of the result decides.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "bytes.h"
#include "image.h"

namespace rtrace::elf {

struct SlotReference {
  enum class Kind : uint8_t { call, jump, load, address };  // load: it is called soon
  ElfAddr address;                                          // of the opcode
  ElfAddr slot;
  Kind kind = Kind::jump;
};
inline constexpr uint64_t kSlotReferenceLength = 6;  // opcode, ModRM, disp32

// `slots` is sorted. In order of address.
std::vector<SlotReference> find_slot_references(const CodeBytes& code, std::span<const ElfAddr> slots);

// Where the PLT stub begins whose jump stands at `jump`: before an endbr64, and before mold's `mov
// $index,%r11d`. `code` holds the jump. Intel SDM, ENDBR64 (f3 0f 1e fa); the prefix f2 is the bnd of Intel
// MPX, which -z ibtplt still emits in binutils before 2.38.
ElfAddr stub_begin(const CodeBytes& code, ElfAddr jump);

// Where the PLT stub begins that has the reference, where it is one of a stub's: its jump, or, in lld's
// retpoline stubs, the `mov slot(%rip), %r11` that is the first instruction.
std::optional<ElfAddr> stub_of(const CodeBytes& code, const SlotReference& reference);

}  // namespace rtrace::elf
