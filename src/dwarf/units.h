// The compile units of one file: which of them holds the code at an address.
#pragma once

#include <optional>
#include <vector>

#include "die.h"
#include "rtrace/base/address.h"

namespace rtrace::dwarf {

class Units {
 public:
  explicit Units(Dwarf* dwarf) : dwarf_(dwarf) {}

  // The unit entry, by .debug_aranges, else by the ranges that the units themselves state: clang writes no
  // .debug_aranges unless asked.
  std::optional<Die> holding(ElfAddr address);
  // All compile units in the file's order, without their contents.
  const std::vector<Die>& all();

 private:
  struct Extent {
    ElfRange range;
    size_t unit = 0;
  };
  std::optional<Die> by_aranges(ElfAddr address);
  const std::vector<Extent>& extents();

  Dwarf* dwarf_;
  std::optional<std::vector<Die>> all_;
  std::optional<std::vector<Extent>> extents_;  // sorted by their begin
};

// The ranges of a unit or a function; fewer where the table is broken.
std::vector<ElfRange> ranges_of(const Die& die);

// Why nothing is read from that unit; empty where it can be.
std::string why_unreadable(const Die& unit);

}  // namespace rtrace::dwarf
