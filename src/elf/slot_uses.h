// Whether an object does more with a GOT slot than call through it. What is found are candidates, not
// verified to be what they read as. Not looked for: code that reaches a slot from the address of something
// beside the GOT, or by one that it computes.
#pragma once

#include <span>
#include <vector>

#include "image.h"
#include "relocations.h"

namespace rtrace::elf {

struct GotView {
  std::span<const ElfAddr> slots;  // sorted
  ElfRange got;                    // of all that the object has, .got.plt included
  bool fixed = false;              // a program at a fixed place: 32-bit addresses count too
};

// Those that code leads to but by `call *slot(%rip)` and `jmp *slot(%rip)`: by a displacement from rip, which
// instructions may have up to four bytes behind. All, where code makes an address in the GOT, from which any
// slot can be reached: by `lea`, or as the large code model does, by a 64-bit distance.
std::vector<ElfAddr> uses_in_code(const CodeBytes& code, const GotView& view);
// Those that a 32-bit distance in data leads to, as LLVM's relative tables have (`.long f@GOTPCREL`).
std::vector<ElfAddr> uses_in_data(const CodeBytes& data, const GotView& view);
// Those whose function's address the dynamic linker puts elsewhere too, into data.
std::vector<ElfAddr> also_in_data(const Relocations& relocations, std::span<const ElfAddr> slots);

// All of that. Where no section says where the GOT is, all of them.
std::vector<ElfAddr> find_other_uses(const Image& image, const Relocations& relocations,
                                     std::vector<ElfAddr> slots);

}  // namespace rtrace::elf
