#include "sdt_notes.h"

#include <algorithm>
#include <cstring>
#include <tuple>

namespace rtrace::elf {
namespace {

constexpr uint32_t kSdtType = 3;  // NT_STAPSDT of <sys/sdt.h>
constexpr std::string_view kOwner{"stapsdt\0", 8};
// The largest programs have a few thousand; what a hostile section asks for ends here.
constexpr size_t kMostNotes = 65536;
constexpr uint64_t kSemaphoreSize = 2;

uint64_t padded(uint64_t size) {
  return (size + 3) & ~uint64_t{3};
}

std::string_view as_text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The text up to a NUL, which is taken off the front of `rest` with it; false where none ends it.
bool take_text(std::string_view& rest, std::string_view& text) {
  const size_t end = rest.find('\0');
  if (end == std::string_view::npos) return false;
  text = rest.substr(0, end);
  rest.remove_prefix(end + 1);
  return true;
}

class NoteReader {
 public:
  explicit NoteReader(const Image& image) : image_(image) {
    if (const auto base = image.section(".stapsdt.base")) base_ = base->header.sh_addr;
  }

  // gABI, "Note Section", with the 4-byte words that ELFCLASS64 has in practice too.
  void read(Bytes notes) {
    for (uint64_t at = 0; at < notes.size() && seen_ < kMostNotes; ++seen_) {
      const auto header = load<Elf64_Nhdr>(notes, at);
      const uint64_t name = at + sizeof(Elf64_Nhdr);
      const uint64_t description = header ? name + padded(header->n_namesz) : 0;
      const Bytes body = header ? exactly(notes, description, header->n_descsz) : Bytes{};
      if (!header || body.size() != header->n_descsz || description > notes.size()) {
        image_.warn("truncated: .note.stapsdt ends inside a note");
        return;
      }
      if (header->n_type == kSdtType && as_text(clamped(notes, name, header->n_namesz)) == kOwner) add(body);
      at = description + padded(header->n_descsz);
    }
  }

  std::vector<SdtNote> take() {
    std::sort(notes_.begin(), notes_.end(), [](const SdtNote& a, const SdtNote& b) {
      return std::tie(a.address, a.provider, a.name) < std::tie(b.address, b.provider, b.name);
    });
    return std::move(notes_);
  }

 private:
  // Three addresses and three texts.
  void add(Bytes body) {
    const auto pc = load<uint64_t>(body, 0), base = load<uint64_t>(body, 8),
               semaphore = load<uint64_t>(body, 16);
    SdtNote note;
    std::string_view rest = semaphore ? as_text(body.subspan(24)) : std::string_view{};
    if (!take_text(rest, note.provider) || !take_text(rest, note.name) || !take_text(rest, note.arguments) ||
        note.provider.empty() || note.name.empty())
      return image_.warn("a note of .note.stapsdt makes no sense");
    // prelink(8) moves sections, and the words of a note that is not loaded stay behind.
    const uint64_t moved = base_ != 0 && *base != 0 ? base_ - *base : 0;
    note.address = {*pc + moved};
    if (!image_.executable(note.address))
      return image_.warn(fmt::format("the SDT probe {}:{} is not in code", note.provider, note.name));
    if (*semaphore != 0) set_semaphore(note, {*semaphore + moved});
    notes_.push_back(note);
  }

  // Tracers write there: only to data.
  void set_semaphore(SdtNote& note, ElfAddr address) {
    const Segment* segment = image_.segment_of(address);
    if (segment != nullptr && segment->writable && !segment->executable &&
        address.value % kSemaphoreSize == 0 && segment->memory.end - address >= kSemaphoreSize)
      note.semaphore = address;
    else
      image_.warn(
          fmt::format("the semaphore of the SDT probe {}:{} is not in data", note.provider, note.name));
  }

  const Image& image_;
  uint64_t base_ = 0;
  size_t seen_ = 0;
  std::vector<SdtNote> notes_;
};

}  // namespace

std::vector<SdtNote> read_sdt_notes(const Image& image) {
  NoteReader reader(image);
  for (const Section& section : image.sections())
    if (section.header.sh_type == SHT_NOTE && section.name() == ".note.stapsdt")
      reader.read(image.contents(section));
  return reader.take();
}

}  // namespace rtrace::elf
