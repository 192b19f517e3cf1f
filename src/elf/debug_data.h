// .gnu_debugdata: GDB manual, "MiniDebugInfo". Fedora's distributions put it into what they strip.
#pragma once

#include <memory>

#include "image.h"

namespace rtrace::elf {

// The ELF file inside that section, whose .symtab names the static functions of `object`. nullptr where there
// is none, or one that cannot be unpacked, which the object's warnings() tell.
std::unique_ptr<Image> read_debug_data(const Image& object);

}  // namespace rtrace::elf
