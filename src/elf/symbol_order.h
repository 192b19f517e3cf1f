// Which of several symbols comes first, and which counts.
#pragma once

#include <vector>

#include "rtrace/elf/elf_file.h"

namespace rtrace::elf {

// By address. The same (name, address) once: the exported entry, which knows its version, before .symtab's,
// and the default version before others.
void sort_and_merge(std::vector<Symbol>& symbols);

// The name of an address: global before weak before local, then fewest leading underscores, then
// alphabetical.
bool is_better_name(const Symbol& a, const Symbol& b);

}  // namespace rtrace::elf
