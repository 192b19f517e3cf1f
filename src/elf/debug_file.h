#pragma once

#include <memory>
#include <string>

#include "image.h"
#include "rtrace/base/unique_fd.h"

namespace rtrace::elf {

struct DebugFile {
  std::unique_ptr<Image> image;
  UniqueFd fd;
  std::string path;
};

// The separate debug file of the object at `path`, verified: the build-ids are equal, or, where one of them
// has none, the debuglink's CRC is right. Without an image where there is none.
DebugFile find_debug_file(const Image& object, const std::string& path);

}  // namespace rtrace::elf
