// Reads .note.stapsdt.
#pragma once

#include <vector>

#include "image.h"
#include "rtrace/elf/sdt_note.h"

namespace rtrace::elf {

// The notes whose code the object maps executable, by address. What is malformed is left out, with a warning.
std::vector<SdtNote> read_sdt_notes(const Image& image);

}  // namespace rtrace::elf
