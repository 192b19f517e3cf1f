#include "rtrace/arch/placement.h"

#include <algorithm>

#include "rtrace/base/error.h"

namespace rtrace::arch {
namespace {

// The end of what user space can map with four-level page tables; the last page is never mapped (Linux,
// TASK_SIZE_MAX).
constexpr uint64_t kUserEnd = (uint64_t{1} << 47) - kPageSize;

constexpr uint64_t round_down(uint64_t value) {
  return value & ~(kPageSize - 1);
}
constexpr uint64_t round_up(uint64_t value) {
  return round_down(value + kPageSize - 1);
}

uint64_t distance(Range near, uint64_t begin, uint64_t size) {
  if (begin >= near.end.value) return begin - near.end.value;
  if (begin + size <= near.begin.value) return near.begin.value - (begin + size);
  return 0;
}

// Keeps the candidate that is nearest so far.
struct Nearest {
  Range near;
  uint64_t size = 0;
  std::optional<Range> best;

  void offer(uint64_t free_begin, uint64_t free_end) {
    free_begin = round_up(free_begin);
    free_end = round_down(free_end);
    if (free_end <= free_begin || free_end - free_begin < size) return;
    uint64_t begin = std::clamp(round_down(near.begin.value), free_begin, free_end - size);
    if (best && distance(near, best->begin.value, size) <= distance(near, begin, size)) return;
    best = Range{{begin}, {begin + size}};
  }
};

}  // namespace

std::optional<Range> find_gap(const std::vector<Range>& taken, Range near, uint64_t size, VirtAddr lowest) {
  CHECK(size > 0 && size % kPageSize == 0, "gap of {} bytes", size);
  // [vsyscall] lies in the upper half: nothing that is mappable is near it.
  if (near.end < near.begin || near.end.value > kUserEnd + kPageSize) return std::nullopt;
  uint64_t last = near.empty() ? near.begin.value : near.end.value - 1;
  uint64_t floor = round_up(std::max(lowest.value, last > kNear ? last - kNear : 0));
  uint64_t ceiling = round_down(std::min(kUserEnd, near.begin.value + kNear + 1));

  Nearest nearest{near, size, std::nullopt};
  uint64_t free_begin = floor;
  for (Range range : taken) {
    if (free_begin >= ceiling) break;
    if (range.begin.value > free_begin) nearest.offer(free_begin, std::min(range.begin.value, ceiling));
    free_begin = std::max(free_begin, range.end.value);
  }
  if (free_begin < ceiling) nearest.offer(free_begin, ceiling);
  return nearest.best;
}

}  // namespace rtrace::arch
