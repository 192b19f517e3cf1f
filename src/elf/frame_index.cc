#include "rtrace/elf/frame_index.h"

#include <cstring>

#include "rtrace/elf/encoded_reader.h"

namespace rtrace::elf {

std::optional<FrameIndex> FrameIndex::of(const FrameArea& area) {
  constexpr uint8_t kDataRelative4 = 0x3b;  // DW_EH_PE_datarel | DW_EH_PE_sdata4
  EncodedReader reader(area.bytes, area.address);
  const uint64_t version = reader.take<uint8_t>();
  const auto section = static_cast<uint8_t>(reader.take<uint8_t>());
  const auto number = static_cast<uint8_t>(reader.take<uint8_t>());
  const auto table = static_cast<uint8_t>(reader.take<uint8_t>());
  if (version != 1 || number == kEncodingOmit || table != kDataRelative4) return std::nullopt;
  reader.take_pointer(section, area.address);
  FrameIndex index;
  index.count_ = reader.take_format(number);
  index.base_ = area.address;
  index.pairs_ = reader.rest();
  if (reader.failed() || index.count_ > index.pairs_.size() / kPair) return std::nullopt;
  return index;
}

std::optional<FrameIndex::Row> FrameIndex::last_not_behind(ElfAddr address) const {
  uint64_t first = 0, count = count_;
  while (count > 0) {
    const uint64_t half = count / 2;
    if (function(first + half) <= address) {
      first += half + 1;
      count -= half + 1;
    } else {
      count = half;
    }
  }
  if (first == 0) return std::nullopt;
  return Row{function(first - 1), at((first - 1) * kPair + sizeof(int32_t))};
}

ElfAddr FrameIndex::at(uint64_t offset) const {
  int32_t distance = 0;
  std::memcpy(&distance, pairs_.data() + offset, sizeof distance);
  return base_ + static_cast<uint64_t>(int64_t{distance});
}

}  // namespace rtrace::elf
