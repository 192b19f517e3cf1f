#include "frame_entry.h"

namespace rtrace::unwind {
namespace {

using elf::EncodedReader;
using elf::FrameArea;

EncodedReader reader_of(const FrameArea& area, const Record& record) {
  return {record.body, area.address + record.id_offset};
}

// The letters behind 'z', each with its part of the augmentation data.
bool read_augmentation(std::string_view letters, EncodedReader data, CommonEntry& common) {
  for (char letter : letters) {
    switch (letter) {
      case 'R':
        common.pointers = static_cast<uint8_t>(data.take<uint8_t>());
        break;
      case 'L':
        data.take<uint8_t>();
        break;
      case 'P':
        common.personality = true;
        data.take_format(static_cast<uint8_t>(data.take<uint8_t>()));
        break;
      case 'S':
        common.signal_frame = true;
        break;
      case 'B':  // pointer authentication, of other machines
        break;
      default:  // what follows it cannot be found
        return false;
    }
  }
  return !data.failed();
}

std::optional<CommonEntry> common_entry(const FrameArea& area, const Record& record) {
  EncodedReader reader = reader_of(area, record);
  if (record.wide)
    reader.take<uint64_t>();
  else
    reader.take<uint32_t>();
  const uint64_t version = reader.take<uint8_t>();
  const std::string_view augmentation = reader.take_string();
  if (reader.failed() || (version != 1 && version != 3 && version != 4)) return std::nullopt;
  if (version == 4 && (reader.take<uint8_t>() != sizeof(uint64_t) || reader.take<uint8_t>() != 0))
    return std::nullopt;  // address size, segment selector size
  CommonEntry common;
  common.code_alignment = reader.take_leb128();
  common.data_alignment = reader.take_signed_leb128();
  common.return_column = version == 1 ? reader.take<uint8_t>() : reader.take_leb128();
  if (!augmentation.empty()) {
    if (augmentation[0] != 'z') return std::nullopt;
    common.augmented = true;
    const uint64_t size = reader.take_leb128();
    const ElfAddr address = reader.address();
    if (!read_augmentation(augmentation.substr(1), {reader.take_bytes(size), address}, common))
      return std::nullopt;
  }
  if (reader.failed()) return std::nullopt;
  common.program = reader.rest();
  return common;
}

// An id of .eh_frame is the distance back from itself to the common entry, 0 in a common entry; one of
// .debug_frame is the common entry's place in the section, all ones in a common entry.
std::optional<uint64_t> common_offset(Flavour flavour, const Record& record, uint64_t id) {
  if (flavour == Flavour::eh_frame) {
    if (id == 0 || id > record.id_offset) return std::nullopt;
    return record.id_offset - id;
  }
  const uint64_t own = record.wide ? UINT64_MAX : UINT32_MAX;
  return id == own ? std::nullopt : std::optional(id);
}

}  // namespace

std::optional<Record> record_at(const FrameArea& area, uint64_t offset) {
  if (offset >= area.bytes.size()) return std::nullopt;
  EncodedReader reader(area.bytes.subspan(offset), area.address + offset);
  Record record;
  uint64_t length = reader.take<uint32_t>();
  record.wide = length == UINT32_MAX;
  if (record.wide) length = reader.take<uint64_t>();
  if (length == 0 || reader.failed()) return std::nullopt;
  record.id_offset = offset + reader.offset();
  record.body = reader.take_bytes(length);
  if (reader.failed()) return std::nullopt;
  record.next = record.id_offset + length;
  return record;
}

std::optional<FrameEntry> frame_entry(Flavour flavour, const FrameArea& area, const Record& record) {
  EncodedReader reader = reader_of(area, record);
  // In .eh_frame the id has 32 bits whatever the length has.
  const bool wide = record.wide && flavour == Flavour::debug_frame;
  const uint64_t id = wide ? reader.take<uint64_t>() : reader.take<uint32_t>();
  const auto common_at = common_offset(flavour, record, id);
  if (reader.failed() || !common_at) return std::nullopt;
  const auto common_record = record_at(area, *common_at);
  if (!common_record) return std::nullopt;
  Record narrowed = *common_record;
  narrowed.wide &= flavour == Flavour::debug_frame;
  auto common = common_entry(area, narrowed);
  if (!common) return std::nullopt;
  FrameEntry entry;
  const ElfAddr begin = reader.take_pointer(common->pointers, area.address);
  const uint64_t size = reader.take_format(common->pointers);
  if (common->augmented) reader.take_bytes(reader.take_leb128());
  if (reader.failed() || size == 0 || begin.value + size < begin.value) return std::nullopt;
  entry.common = *common;
  entry.code = {begin, begin + size};
  entry.program_address = reader.address();
  entry.program = reader.rest();
  return entry;
}

}  // namespace rtrace::unwind
