#pragma once

#include <memory>
#include <string>

#include "image.h"

namespace rtrace::elf {

// The separate debug file of the object at `path`, verified: the build-ids are equal, or, where one of them
// has none, the debuglink's CRC is right. nullptr where there is none.
std::unique_ptr<Image> find_debug_file(const Image& object, const std::string& path);

}  // namespace rtrace::elf
