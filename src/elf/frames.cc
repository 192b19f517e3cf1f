#include "frames.h"

#include <algorithm>
#include <unordered_map>

#include "rtrace/elf/encoded_reader.h"

namespace rtrace::elf {

// The section's header gives the exact size. Without it .eh_frame_hdr (PT_GNU_EH_FRAME) says where it begins,
// and its terminator, a zero length, where it ends.
FrameArea find_eh_frame(const Image& image) {
  if (const auto section = image.section(".eh_frame"))
    return {{section->header.sh_addr}, image.contents(*section)};
  const Elf64_Phdr* header = image.program_header(PT_GNU_EH_FRAME);
  if (header == nullptr) return {};
  ElfAddr start{header->p_vaddr};
  EncodedReader cursor(image.at(start), start);
  uint64_t version = cursor.take<uint8_t>();
  auto encoding = static_cast<uint8_t>(cursor.take<uint8_t>());
  cursor.take<uint16_t>();  // the encodings of the search table, which repeats what .eh_frame has
  if (version != 1 || encoding == kEncodingOmit) return {};
  ElfAddr frames = cursor.take_pointer(encoding, start);
  return cursor.failed() ? FrameArea{} : FrameArea{frames, image.at(frames)};
}

FrameArea find_frame_index(const Image& image) {
  const Elf64_Phdr* header = image.program_header(PT_GNU_EH_FRAME);
  if (header == nullptr) return {};
  return {{header->p_vaddr}, image.at({header->p_vaddr}, header->p_filesz)};
}

FrameArea find_debug_frame(const Image& image) {
  const auto section = image.section(".debug_frame");
  if (!section || (section->header.sh_flags & SHF_COMPRESSED) != 0) return {};
  return {{section->header.sh_addr}, image.contents(*section)};
}

namespace {

// The pointer encoding that a CIE's augmentation gives ('R'); nullopt for a CIE that cannot be read.
std::optional<uint8_t> cie_encoding(Bytes record, ElfAddr address) {
  EncodedReader cursor(record, address);
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
  if (!augmentation.starts_with('z')) return kEncodingAbsolute;
  cursor.take_leb128();
  uint8_t encoding = kEncodingAbsolute;
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

class FrameReader {
 public:
  FrameReader(const Image& image, FrameArea area) : image_(image), area_(area) {}

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
    EncodedReader cursor(record.subspan(4), area_.address + offset + 4);
    ElfAddr begin = cursor.take_pointer(cie->second, area_.address);
    uint64_t size = cursor.take_format(cie->second);
    bool sound = !cursor.failed() && size > 0 && size <= UINT32_MAX && image_.executable(begin) &&
                 image_.executable(begin + (size - 1));
    if (sound) ranges_.push_back({begin, begin + size});
    return true;
  }

  const Image& image_;
  FrameArea area_;
  std::unordered_map<uint64_t, uint8_t> encodings_;  // by the offset of the CIE's id field
  std::vector<ElfRange> ranges_;
};

}  // namespace

std::vector<ElfRange> read_frame_ranges(const Image& image) {
  return FrameReader(image, find_eh_frame(image)).run();
}

}  // namespace rtrace::elf
