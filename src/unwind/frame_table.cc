#include "rtrace/unwind/frame_table.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "cfa_program.h"
#include "rtrace/elf/encoded_reader.h"

namespace rtrace::unwind {
namespace {

using elf::EncodedReader;

// Of one table: what is asked again and again are the call sites of a program's hot paths.
constexpr size_t kMostKnown = 16384;

// .eh_frame_hdr's table of pairs of 32-bit distances from its own start: the function, its entry. The only
// form that linkers make.
struct Index {
  uint64_t count = 0;
  std::span<const std::byte> pairs;
  ElfAddr base;

  static std::optional<Index> of(const elf::FrameArea& area) {
    constexpr uint8_t kDataRelative4 = 0x3b;  // DW_EH_PE_datarel | DW_EH_PE_sdata4
    EncodedReader reader(area.bytes, area.address);
    const uint64_t version = reader.take<uint8_t>();
    const auto section = static_cast<uint8_t>(reader.take<uint8_t>());
    const auto number = static_cast<uint8_t>(reader.take<uint8_t>());
    const auto table = static_cast<uint8_t>(reader.take<uint8_t>());
    if (version != 1 || number == elf::kEncodingOmit || table != kDataRelative4) return std::nullopt;
    reader.take_pointer(section, area.address);
    Index index;
    index.count = reader.take_format(number);
    index.base = area.address;
    index.pairs = reader.rest();
    if (reader.failed() || index.count > index.pairs.size() / kPair) return std::nullopt;
    return index;
  }

  static constexpr size_t kPair = 2 * sizeof(int32_t);

  ElfAddr function(uint64_t number) const { return base + word(number * kPair); }
  ElfAddr entry(uint64_t number) const { return base + word(number * kPair + sizeof(int32_t)); }

 private:
  uint64_t word(uint64_t offset) const {
    int32_t value = 0;
    std::memcpy(&value, pairs.data() + offset, sizeof value);
    return static_cast<uint64_t>(int64_t{value});
  }
};

Flavour flavour_of(bool eh_frame) {
  return eh_frame ? Flavour::eh_frame : Flavour::debug_frame;
}

}  // namespace

FrameTable::FrameTable(std::shared_ptr<const elf::ElfFile> file)
    : file_(std::move(file)),
      eh_frame_(file_->eh_frame()),
      index_(file_->eh_frame_index()),
      debug_frame_(file_->debug_frame()) {}

const Row* FrameTable::find(ElfAddr address) {
  if (known_.size() > kMostKnown) known_.clear();
  auto [known, fresh] = known_.try_emplace(address);
  if (fresh) known->second = look_up(address);
  return known->second ? &*known->second : nullptr;
}

std::optional<Row> FrameTable::look_up(ElfAddr address) {
  if (const auto offset = search_index(address))
    if (auto row = row_in(Kind::eh_frame, *offset, address)) return row;
  if (auto row = search(Kind::eh_frame, eh_entries_, address)) return row;
  return search(Kind::debug_frame, debug_entries_, address);
}

// The last function that does not begin behind the address.
std::optional<uint64_t> FrameTable::search_index(ElfAddr address) const {
  const auto index = Index::of(index_);
  if (!index) return std::nullopt;
  uint64_t first = 0, count = index->count;
  while (count > 0) {
    const uint64_t half = count / 2;
    if (index->function(first + half) <= address) {
      first += half + 1;
      count -= half + 1;
    } else {
      count = half;
    }
  }
  if (first == 0) return std::nullopt;
  const ElfAddr entry = index->entry(first - 1);
  if (entry < eh_frame_.address) return std::nullopt;
  return entry - eh_frame_.address;
}

std::optional<Row> FrameTable::row_in(Kind kind, uint64_t offset, ElfAddr address) const {
  const auto record = record_at(area(kind), offset);
  if (!record) return std::nullopt;
  const auto entry = frame_entry(flavour_of(kind == Kind::eh_frame), area(kind), *record);
  return entry ? run_program(*entry, address) : std::nullopt;
}

std::vector<FrameTable::Entry> FrameTable::entries_of(Kind kind, const elf::FrameArea& area) {
  std::vector<Entry> entries;
  uint64_t offset = 0;
  while (auto record = record_at(area, offset)) {
    if (auto entry = frame_entry(flavour_of(kind == Kind::eh_frame), area, *record))
      entries.push_back({entry->code, offset});
    offset = record->next;
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.code.begin < b.code.begin; });
  return entries;
}

// An index that is there is complete (ld and lld list every entry), so that this is for objects without one.
std::optional<Row> FrameTable::search(Kind kind, std::optional<std::vector<Entry>>& entries,
                                      ElfAddr address) {
  if (kind == Kind::eh_frame && Index::of(index_)) return std::nullopt;
  if (!entries) entries = entries_of(kind, area(kind));
  auto after = std::upper_bound(entries->begin(), entries->end(), address,
                                [](ElfAddr wanted, const Entry& entry) { return wanted < entry.code.begin; });
  if (after == entries->begin() || !std::prev(after)->code.contains(address)) return std::nullopt;
  return row_in(kind, std::prev(after)->offset, address);
}

}  // namespace rtrace::unwind
