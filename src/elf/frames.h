// .eh_frame and its kin: which ranges are functions, in objects that may have no symbols at all.
#pragma once

#include <vector>

#include "image.h"

namespace rtrace::elf {

FrameArea find_eh_frame(const Image& image);
// .eh_frame_hdr, whose table finds a function's entry.
FrameArea find_frame_index(const Image& image);
// Empty where it is compressed.
FrameArea find_debug_frame(const Image& image);

// [begin, end) of each frame description entry, sorted, each once.
std::vector<ElfRange> read_frame_ranges(const Image& image);

}  // namespace rtrace::elf
