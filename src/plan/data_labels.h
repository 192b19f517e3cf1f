// Labels that data hold: the targets of switches and computed gotos.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "rtrace/elf/elf_file.h"

namespace rtrace::plan {

struct DataLabel {
  ElfAddr word, target;
};

// Each aligned word of the object's loaded segments that is one of the `targets` (sorted), by place: elements
// of tables, the addends of their relocations. Words that only read so are among them. Costs a sixth to a
// quarter of a nanosecond a byte, for one target and for thousands (m).
std::vector<DataLabel> find_data_labels(const elf::ElfFile& file, std::span<const ElfAddr> targets);

// Of a function that jumps by a register: the first element of a table of distances (four bytes each, from
// the table's beginning or from a label whose address the function takes) that leads into `target`. A table
// is what the function takes the address of, as far as its elements lead to code.
std::optional<DataLabel> find_distance_label(const elf::ElfFile& file, const ElfRange& function,
                                             const ElfRange& target);

}  // namespace rtrace::plan
