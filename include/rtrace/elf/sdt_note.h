// SDT probes: places that a program marks for tracers (<sys/sdt.h>). Each is a nop in the code and a note in
// .note.stapsdt (systemtap wiki, "UserSpaceProbeImplementation").
#pragma once

#include <cstdint>
#include <string_view>

#include "rtrace/base/address.h"

namespace rtrace::elf {

// Texts point into the ElfFile, which outlives them.
struct SdtNote {
  ElfAddr address;            // of the nop
  ElfAddr semaphore;          // a uint16 that is not zero while somebody traces; 0 where there is none
  std::string_view provider;  // "ruby"
  std::string_view name;      // "gc__mark__begin"
  std::string_view
      arguments;  // "-4@%edi 8@-24(%rbp)": size and sign, then the operand as the assembler has it
  bool operator==(const SdtNote&) const = default;
};

}  // namespace rtrace::elf
