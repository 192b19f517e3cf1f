#include "rtrace/mech/code_arena.h"

#include <algorithm>

#include "rtrace/arch/placement.h"

namespace rtrace::mech {
namespace {

constexpr uint64_t kHeapRoom = uint64_t{1} << 30;
constexpr uint64_t kStackRoom = uint64_t{64} << 20;

bool reaches(Range range, VirtAddr near) {
  const uint64_t low = near.value > arch::kNear ? near.value - arch::kNear : 0;
  return range.begin.value >= low && range.end.value <= near.value + arch::kNear;
}

}  // namespace

void CodeArena::add(Range range, uint64_t used) {
  chunks_.push_back({range, used});
}

std::optional<VirtAddr> CodeArena::allocate(VirtAddr near, uint64_t size) {
  size = (size + kAlignment - 1) / kAlignment * kAlignment;
  auto again = std::find_if(free_.begin(), free_.end(),
                            [&](Range place) { return place.size() >= size && reaches(place, near); });
  if (again != free_.end()) {
    const VirtAddr address = again->begin;
    free_.erase(again);
    return address;
  }
  for (Chunk& chunk : chunks_) {
    if (chunk.range.size() - chunk.used < size || !reaches(chunk.range, near)) continue;
    VirtAddr address = chunk.range.begin + chunk.used;
    chunk.used += size;
    return address;
  }
  return std::nullopt;
}

uint64_t CodeArena::room_near(VirtAddr near) const {
  uint64_t room = 0;
  for (const Chunk& chunk : chunks_)
    if (reaches(chunk.range, near)) room += chunk.range.size() - chunk.used;
  return room;
}

void CodeArena::release(VirtAddr address, uint64_t size) {
  free_.push_back({address, address + (size + kAlignment - 1) / kAlignment * kAlignment});
}

bool CodeArena::contains(VirtAddr address) const {
  return std::any_of(chunks_.begin(), chunks_.end(),
                     [&](const Chunk& chunk) { return chunk.range.contains(address); });
}

std::vector<Range> CodeArena::ranges() const {
  std::vector<Range> ranges;
  for (const Chunk& chunk : chunks_) ranges.push_back(chunk.range);
  return ranges;
}

std::vector<Range> taken_ranges(const std::vector<tracee::MapsEntry>& maps) {
  std::vector<Range> taken;
  // brk grows from behind the main program, wherever the heap is by now; the program is the first file that
  // is mapped.
  uint64_t program_inode = 0;
  for (const auto& entry : maps) {
    Range range = entry.range;
    if (program_inode == 0) program_inode = entry.inode;
    if (entry.path == "[heap]" || (program_inode != 0 && entry.inode == program_inode))
      range.end = range.end + kHeapRoom;
    if (entry.path == "[stack]") range.begin = range.begin - kStackRoom;
    if (!taken.empty() && range.begin <= taken.back().end)
      taken.back().end = std::max(taken.back().end, range.end);
    else
      taken.push_back(range);
  }
  return taken;
}

std::optional<Range> find_place(const std::vector<tracee::MapsEntry>& maps, Range near, uint64_t size) {
  if (maps.empty()) return std::nullopt;
  const auto gap = arch::find_gap(taken_ranges(maps), near, size + 2 * arch::kPageSize);
  if (!gap) return std::nullopt;
  return Range{gap->begin + arch::kPageSize, gap->begin + arch::kPageSize + size};
}

}  // namespace rtrace::mech
