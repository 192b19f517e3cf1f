#include "rtrace/unwind/frame_table.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "cfa_program.h"
#include "rtrace/elf/frame_index.h"

namespace rtrace::unwind {
namespace {

// Of one table: what is asked again and again are the call sites of a program's hot paths.
constexpr size_t kMostKnown = 16384;

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

std::optional<uint64_t> FrameTable::search_index(ElfAddr address) const {
  const auto index = elf::FrameIndex::of(index_);
  const auto row = index ? index->last_not_behind(address) : std::nullopt;
  if (!row || row->entry < eh_frame_.address) return std::nullopt;
  return row->entry - eh_frame_.address;
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
  if (kind == Kind::eh_frame && elf::FrameIndex::of(index_)) return std::nullopt;
  if (!entries) entries = entries_of(kind, area(kind));
  auto after = std::upper_bound(entries->begin(), entries->end(), address,
                                [](ElfAddr wanted, const Entry& entry) { return wanted < entry.code.begin; });
  if (after == entries->begin() || !std::prev(after)->code.contains(address)) return std::nullopt;
  return row_in(kind, std::prev(after)->offset, address);
}

}  // namespace rtrace::unwind
