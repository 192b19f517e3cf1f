#include "rtrace/elf/loaded_object.h"

#include <algorithm>

#include "rtrace/base/text.h"

namespace rtrace::elf {

std::string LoadedObject::name() const {
  if (file && !file->soname().empty()) return std::string(file->soname());
  return std::string(basename_of(path));
}

bool LoadedObject::maps(VirtAddr address) const {
  return std::ranges::any_of(file->segments(),
                             [&](const Segment& s) { return s.memory.contains(in_file(address)); });
}

bool LoadedObject::maps_executable(VirtAddr address) const {
  return std::ranges::any_of(file->segments(), [&](const Segment& segment) {
    return segment.executable && segment.memory.contains(in_file(address));
  });
}

Range LoadedObject::range() const {
  const auto& segments = file->segments();
  if (segments.empty()) return {};
  auto last =
      std::ranges::max_element(segments, {}, [](const Segment& segment) { return segment.memory.end; });
  return {at(segments.front().memory.begin), at(last->memory.end)};
}

}  // namespace rtrace::elf
