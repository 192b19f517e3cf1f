// Padding between functions, for a jump that is too long for the entry it belongs to.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "rtrace/elf/elf_file.h"

namespace rtrace::plan {

// Distances are what they will be in memory, so the file's own addresses serve.
inline VirtAddr as_mapped(ElfAddr address) {
  return {address.value};
}

// `starts`: where functions begin, sorted.
class Padding {
 public:
  Padding(const elf::ElfFile& file, std::span<const ElfAddr> starts) : file_(file), starts_(starts) {}

  // Room for a near jump that a short jump at `at` reaches: behind a function whose end is known, and which
  // does not go on there. Whether other code leads to it is another question. Given out once.
  std::optional<ElfAddr> take_near(ElfAddr at);

 private:
  bool serves(const ElfRange& function) const;

  const elf::ElfFile& file_;
  std::span<const ElfAddr> starts_;
  std::vector<ElfAddr> taken_;
};

}  // namespace rtrace::plan
