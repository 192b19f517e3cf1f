#include "rtrace/arch/placement.h"

#include <gtest/gtest.h>

namespace rtrace::arch::placement_test {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr uint64_t kTop = (uint64_t{1} << 47) - kPageSize;

constexpr Range range(uint64_t begin, uint64_t end) {
  return {{begin}, {end}};
}
using Gap = std::optional<Range>;

TEST(FindGap, DirectlyBehindAnObjectWithNothingAround) {
  Range object = range(0x7f0000001000, 0x7f0000005000);
  EXPECT_EQ(find_gap({object}, object, kPageSize), Gap(range(0x7f0000000000, 0x7f0000001000)))
      << "a tie: the lower";
}

struct Row {
  const char* claim;
  std::vector<Range> taken;
  Range near;
  uint64_t size;
  Gap gap;
};

constexpr uint64_t kBase = 0x7f0000000000;

const Row kRows[] = {
    {"the nearer side wins: above",
     {range(kBase - 0x5000, kBase), range(kBase, kBase + 0x4000)},
     range(kBase, kBase + 0x4000),
     0x1000,
     range(kBase + 0x4000, kBase + 0x5000)},
    {"the nearer side wins: below",
     {range(kBase, kBase + 0x4000), range(kBase + 0x4000, kBase + 0x9000)},
     range(kBase, kBase + 0x4000),
     0x1000,
     range(kBase - 0x1000, kBase)},
    {"a hole that is too small is passed over",
     {range(kBase - 0x8000, kBase), range(kBase, kBase + 0x4000), range(kBase + 0x5000, kBase + 0x6000)},
     range(kBase, kBase + 0x4000),
     0x2000,
     range(kBase + 0x6000, kBase + 0x8000)},
    {"a hole that fits exactly is taken",
     {range(kBase - 0x8000, kBase), range(kBase, kBase + 0x4000), range(kBase + 0x6000, kBase + 0x7000)},
     range(kBase, kBase + 0x4000),
     0x2000,
     range(kBase + 0x4000, kBase + 0x6000)},
    {"borders off a page are rounded inwards",
     {range(kBase - 0x8000, kBase), range(kBase, kBase + 0x4100)},
     range(kBase, kBase + 0x4100),
     0x1000,
     range(kBase + 0x5000, kBase + 0x6000)},
    {"never below the lowest address",
     {range(0x11000, 0x20000)},
     range(0x11000, 0x20000),
     0x2000,
     range(0x20000, 0x22000)},
    {"never into the last page of user space",
     {range(kTop - 0x8000, kTop - 0x3000)},
     range(kTop - 0x8000, kTop - 0x3000),
     0x4000,
     range(kTop - 0xc000, kTop - 0x8000)},
    {"nothing within reach is free",
     {range(kBase - 3 * kGiB, kBase), range(kBase, kBase + 0x1000), range(kBase + 0x1000, kBase + 3 * kGiB)},
     range(kBase, kBase + 0x1000),
     0x1000,
     std::nullopt},
    {"a gap wholly in reach is measured from the far end of the object",
     {range(kBase - kGiB, kBase), range(kBase, kBase + kGiB), range(kBase + kGiB, kBase + 4 * kGiB)},
     range(kBase, kBase + kGiB),
     0x1000,
     std::nullopt},
    {"an object too large to reach all of it from one place",
     {range(kBase, kBase + 3 * kGiB)},
     range(kBase, kBase + 3 * kGiB),
     0x1000,
     std::nullopt},
    {"the vsyscall page has nothing near",
     {range(0xffffffffff600000, 0xffffffffff601000)},
     range(0xffffffffff600000, 0xffffffffff601000),
     0x1000,
     std::nullopt},
};

TEST(FindGap, NearestThatFits) {
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.claim);
    EXPECT_EQ(find_gap(row.taken, row.near, row.size), row.gap);
  }
}

TEST(FindGap, LastReachableByteIsUsedAndNoFurther) {
  Range object = range(kBase, kBase + 0x1000);
  uint64_t reach = kBase + kNear + 1;  // exclusive end of what is near to kBase
  uint64_t page = (reach & ~(kPageSize - 1)) - kPageSize;
  std::vector<Range> taken = {range(kBase - 3 * kGiB, kBase), object, range(kBase + 0x1000, page)};
  EXPECT_EQ(find_gap(taken, object, kPageSize), Gap(range(page, page + kPageSize)));
  taken.back() = range(kBase + 0x1000, page + 1);
  EXPECT_EQ(find_gap(taken, object, kPageSize), std::nullopt);
}

TEST(FindGap, FirstReachableByteIsUsedAndNoFurther) {
  Range object = range(kBase, kBase + 0x1000);
  uint64_t page = (object.end.value - 1 - kNear + kPageSize - 1) & ~(kPageSize - 1);
  std::vector<Range> taken = {range(page + kPageSize, kBase), object,
                              range(kBase + 0x1000, kBase + 3 * kGiB)};
  EXPECT_EQ(find_gap(taken, object, kPageSize), Gap(range(page, page + kPageSize)));
  taken.front() = range(page + kPageSize - 1, kBase);
  EXPECT_EQ(find_gap(taken, object, kPageSize), std::nullopt);
}

TEST(FindGap, ObjectNearAddressZeroDoesNotWrap) {
  Range object = range(0x400000, 0x500000);
  EXPECT_EQ(find_gap({range(0x10000, 0x400000), object}, object, kPageSize), Gap(range(0x500000, 0x501000)));
}

TEST(FindGapDeathTest, SizeIsWholePages) {
  EXPECT_DEATH(find_gap({}, range(0x400000, 0x401000), 100), "CHECK");
}

}  // namespace
}  // namespace rtrace::arch::placement_test
