// .eh_frame_hdr (PT_GNU_EH_FRAME): finds the call frame information of an address without reading all of it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "rtrace/elf/elf_file.h"

namespace rtrace::elf {

// Its table of pairs of 32-bit distances from its own start: the function, its entry. The only form that
// linkers make; LSB Core 5.0, "The .eh_frame_hdr section".
class FrameIndex {
 public:
  // nullopt where there is none, or of another form. `area` is ElfFile::eh_frame_index() and must outlive it.
  static std::optional<FrameIndex> of(const FrameArea& area);

  struct Row {
    ElfAddr function;
    ElfAddr entry;  // in .eh_frame
  };
  // The last function that does not begin behind the address. The table is sorted, or what comes is nonsense:
  // look at the entry.
  std::optional<Row> last_not_behind(ElfAddr address) const;

 private:
  static constexpr size_t kPair = 2 * sizeof(int32_t);
  ElfAddr at(uint64_t offset) const;
  ElfAddr function(uint64_t number) const { return at(number * kPair); }

  uint64_t count_ = 0;
  std::span<const std::byte> pairs_;
  ElfAddr base_;
};

}  // namespace rtrace::elf
