// From relocations to CallSlots: names, stubs, direct references.
#pragma once

#include <vector>

#include "dynamic.h"
#include "image.h"
#include "relocations.h"
#include "rtrace/elf/elf_file.h"

namespace rtrace::elf {

std::vector<CallSlot> read_call_slots(const Image& image, const DynamicSymbols& symbols,
                                      const Relocations& relocations);
std::vector<IrelativeSlot> read_irelative_slots(const Relocations& relocations);
std::vector<ElfFile::Import> read_imports(const DynamicSymbols& symbols, const Relocations& relocations);

}  // namespace rtrace::elf
