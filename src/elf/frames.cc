#include "frames.h"

#include <algorithm>
#include <unordered_map>

namespace rtrace::elf {
namespace {

// DW_EH_PE_*: LSB Core 5.0, "DWARF Exception Header Encoding".
constexpr uint8_t kOmit = 0xff, kFormatMask = 0x0f, kBaseMask = 0x70, kIndirect = 0x80;
constexpr uint8_t kAbsolute = 0x00, kPcRelative = 0x10, kDataRelative = 0x30;

class Cursor {
 public:
  Cursor(Bytes bytes, ElfAddr address) : bytes_(bytes), address_(address) {}

  ElfAddr address() const { return address_ + at_; }
  bool failed() const { return failed_; }

  template <typename T>
  uint64_t take() {
    auto value = load<T>(bytes_, at_);
    failed_ |= !value;
    at_ += sizeof(T);
    // Sign-extends where T is signed.
    return value ? static_cast<uint64_t>(static_cast<int64_t>(*value)) : 0;
  }

  uint64_t take_leb128() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      uint64_t byte = take<uint8_t>();
      value |= (byte & 0x7f) << shift;
      if (failed_ || (byte & 0x80) == 0) return value;
    }
    failed_ = true;
    return 0;
  }

  std::string_view take_string() {
    std::string_view text = StringTable(bytes_).at(at_);
    at_ += text.size() + 1;
    return text;
  }

  // A pointer without its base.
  uint64_t take_format(uint8_t encoding) {
    switch (encoding & kFormatMask) {
      case 0x00:
      case 0x04:
      case 0x0c:
        return take<uint64_t>();
      case 0x02:
        return take<uint16_t>();
      case 0x03:
        return take<uint32_t>();
      case 0x0a:
        return take<int16_t>();
      case 0x0b:
        return take<int32_t>();
      default:
        failed_ = true;
        return 0;
    }
  }

  ElfAddr take_pointer(uint8_t encoding, ElfAddr data_base) {
    ElfAddr place = address();
    uint64_t value = take_format(encoding);
    if ((encoding & kIndirect) != 0) failed_ = true;
    switch (encoding & kBaseMask) {
      case kAbsolute:
        return {value};
      case kPcRelative:
        return place + value;
      case kDataRelative:
        return data_base + value;
      default:
        failed_ = true;
        return {};
    }
  }

 private:
  Bytes bytes_;
  ElfAddr address_;
  uint64_t at_ = 0;
  bool failed_ = false;
};

struct Area {
  ElfAddr address;
  Bytes bytes;
};

// The section's header gives the exact size. Without it .eh_frame_hdr (PT_GNU_EH_FRAME) says where it begins,
// and its terminator, a zero length, where it ends.
Area find_eh_frame(const Image& image) {
  if (const Section* section = image.section(".eh_frame"))
    return {{section->header.sh_addr}, image.contents(*section)};
  const Elf64_Phdr* header = image.program_header(PT_GNU_EH_FRAME);
  if (header == nullptr) return {};
  ElfAddr start{header->p_vaddr};
  Cursor cursor(image.at(start), start);
  uint64_t version = cursor.take<uint8_t>();
  auto encoding = static_cast<uint8_t>(cursor.take<uint8_t>());
  cursor.take<uint16_t>();  // the encodings of the search table, which repeats what .eh_frame has
  if (version != 1 || encoding == kOmit) return {};
  ElfAddr frames = cursor.take_pointer(encoding, start);
  return cursor.failed() ? Area{} : Area{frames, image.at(frames)};
}

// The pointer encoding that a CIE's augmentation gives ('R'); nullopt for a CIE that cannot be read.
std::optional<uint8_t> cie_encoding(Bytes record, ElfAddr address) {
  Cursor cursor(record, address);
  uint64_t version = cursor.take<uint8_t>();
  std::string_view augmentation = cursor.take_string();
  if (version == 4) cursor.take<uint16_t>();  // address and segment selector sizes
  cursor.take_leb128();                       // code alignment
  cursor.take_leb128();                       // data alignment
  if (version == 1)
    cursor.take<uint8_t>();  // return address register
  else
    cursor.take_leb128();
  if (cursor.failed()) return std::nullopt;
  if (!augmentation.starts_with('z')) return kAbsolute;
  cursor.take_leb128();
  uint8_t encoding = kAbsolute;
  for (char letter : augmentation.substr(1)) {
    if (letter == 'R') encoding = static_cast<uint8_t>(cursor.take<uint8_t>());
    if (letter == 'L') cursor.take<uint8_t>();
    if (letter == 'P') {
      auto personality = static_cast<uint8_t>(cursor.take<uint8_t>());
      cursor.take_format(personality);
    }
    if (cursor.failed()) return std::nullopt;
  }
  return encoding;
}

class Reader {
 public:
  Reader(const Image& image, Area area) : image_(image), area_(area) {}

  std::vector<ElfRange> run() {
    uint64_t at = 0;
    while (auto length = load<uint32_t>(area_.bytes, at)) {
      // 0 ends the section; 0xffffffff announces 64-bit lengths, which no toolchain emits for x86-64.
      if (*length == 0 || *length == UINT32_MAX) break;
      if (!read_record(at + 4, *length)) break;
      at += 4 + uint64_t{*length};
    }
    std::sort(ranges_.begin(), ranges_.end());
    ranges_.erase(std::unique(ranges_.begin(), ranges_.end()), ranges_.end());
    return std::move(ranges_);
  }

 private:
  // False for what cannot be .eh_frame: without section headers that is how a missing terminator shows.
  bool read_record(uint64_t offset, uint64_t length) {
    Bytes record = exactly(area_.bytes, offset, length);
    auto id = load<uint32_t>(record);
    if (!id) return false;
    if (*id == 0) {
      if (auto encoding = cie_encoding(record.subspan(4), area_.address + offset + 4))
        encodings_[offset] = *encoding;
      return true;
    }
    // An FDE's id is the distance back from itself to the CIE's length field.
    auto cie = encodings_.find(offset - *id + 4);
    if (cie == encodings_.end()) return false;
    Cursor cursor(record.subspan(4), area_.address + offset + 4);
    ElfAddr begin = cursor.take_pointer(cie->second, area_.address);
    uint64_t size = cursor.take_format(cie->second);
    bool sound = !cursor.failed() && size > 0 && size <= UINT32_MAX && image_.executable(begin) &&
                 image_.executable(begin + (size - 1));
    if (sound) ranges_.push_back({begin, begin + size});
    return true;
  }

  const Image& image_;
  Area area_;
  std::unordered_map<uint64_t, uint8_t> encodings_;  // by the offset of the CIE's id field
  std::vector<ElfRange> ranges_;
};

}  // namespace

std::vector<ElfRange> read_frame_ranges(const Image& image) {
  return Reader(image, find_eh_frame(image)).run();
}

}  // namespace rtrace::elf
