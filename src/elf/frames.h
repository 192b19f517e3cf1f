// .eh_frame: which ranges are functions, in objects that may have no symbols at all.
#pragma once

#include <vector>

#include "image.h"

namespace rtrace::elf {

// [begin, end) of each frame description entry, sorted, each once.
std::vector<ElfRange> read_frame_ranges(const Image& image);

}  // namespace rtrace::elf
