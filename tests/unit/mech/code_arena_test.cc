#include "rtrace/mech/code_arena.h"

#include <gmock/gmock.h>

#include <set>

namespace rtrace::mech::code_arena_test {
namespace {

using testing::ElementsAre;

constexpr uint64_t kGiB = uint64_t{1} << 30, kMiB = uint64_t{1} << 20;
constexpr VirtAddr kNear{0x7f0000000000};

Range range(uint64_t begin, uint64_t end) {
  return {{begin}, {end}};
}

std::string show(const std::vector<Range>& ranges) {
  std::string text;
  for (Range each : ranges) text += fmt::format("{}-{} ", each.begin, each.end);
  return text;
}

TEST(CodeArena, PlacesAreAlignedApartAndInsideTheChunk) {
  CodeArena arena;
  const Range chunk = range(kNear.value, kNear.value + 4096);
  arena.add(chunk, 16);
  std::set<uint64_t> slots;
  uint64_t taken = 16;
  for (uint64_t size : {1u, 15u, 16u, 17u, 32u, 33u, 64u}) {
    const auto at = arena.allocate(kNear, size);
    ASSERT_TRUE(at) << size;
    EXPECT_EQ(at->value % CodeArena::kAlignment, 0u);
    EXPECT_GE(at->value, chunk.begin.value + 16) << "the first bytes are in use";
    EXPECT_TRUE(chunk.contains(*at) && arena.contains(*at));
    for (uint64_t offset = 0; offset < size; offset += CodeArena::kAlignment)
      EXPECT_TRUE(slots.insert(at->value + offset).second) << size;
    taken += (size + 15) / 16 * 16;
  }
  EXPECT_EQ(arena.room_near(kNear), 4096 - taken);
}

TEST(CodeArena, GivesNoMoreThanItHas) {
  CodeArena arena;
  EXPECT_FALSE(arena.allocate(kNear, 1));
  arena.add(range(kNear.value, kNear.value + 64));
  EXPECT_TRUE(arena.allocate(kNear, 48));
  EXPECT_FALSE(arena.allocate(kNear, 17));
  EXPECT_TRUE(arena.allocate(kNear, 16));
  EXPECT_FALSE(arena.allocate(kNear, 1));
}

TEST(CodeArena, OnlyChunksThatRel32ReachesServe) {
  struct Row {
    uint64_t begin;
    bool reached;
  };
  const Row rows[] = {{kNear.value, true},
                      {kNear.value + kGiB, true},
                      {kNear.value - kGiB, true},
                      {kNear.value - 2 * kGiB + kMiB, true},
                      {kNear.value + 2 * kGiB - kMiB, true},
                      {kNear.value - 2 * kGiB, false},
                      {kNear.value + 2 * kGiB - 4096, false},
                      {kNear.value + 3 * kGiB, false}};
  for (const Row& row : rows) {
    CodeArena arena;
    arena.add(range(row.begin, row.begin + 4096));
    EXPECT_EQ(arena.allocate(kNear, 32).has_value(), row.reached) << std::hex << row.begin;
    EXPECT_EQ(arena.room_near(kNear) > 0, row.reached) << std::hex << row.begin;
  }
}

TEST(CodeArena, ReachDoesNotWrapAtTheBottomOfMemory) {
  CodeArena arena;
  arena.add(range(0x10000, 0x11000));
  EXPECT_TRUE(arena.allocate(VirtAddr{0x400000}, 16));
}

TEST(CodeArena, AReleasedPlaceServesAgainWhereItFitsAndIsNear) {
  CodeArena arena;
  arena.add(range(kNear.value, kNear.value + 64));
  const auto first = arena.allocate(kNear, 30);
  ASSERT_TRUE(first && arena.allocate(kNear, 32));
  EXPECT_FALSE(arena.allocate(kNear, 16));
  arena.release(*first, 30);
  EXPECT_FALSE(arena.allocate(kNear, 33)) << "too large";
  EXPECT_FALSE(arena.allocate(kNear + 4 * kGiB, 16)) << "too far";
  EXPECT_EQ(arena.allocate(kNear, 32), first);
  EXPECT_FALSE(arena.allocate(kNear, 1)) << "handed out once";
}

TEST(CodeArena, KnowsItsRanges) {
  CodeArena arena;
  arena.add(range(0x1000, 0x2000));
  arena.add(range(0x5000, 0x6000));
  EXPECT_THAT(arena.ranges(), ElementsAre(range(0x1000, 0x2000), range(0x5000, 0x6000)));
  for (uint64_t inside : {0x1000u, 0x1fffu, 0x5000u}) EXPECT_TRUE(arena.contains({inside}));
  for (uint64_t outside : {0xfffu, 0x2000u, 0x4fffu, 0x6000u}) EXPECT_FALSE(arena.contains({outside}));
}

TEST(TakenRanges, HeapProgramAndStackHaveRoomToGrow) {
  struct Row {
    const char* what;
    const char* maps;
    std::vector<Range> expected;
  };
  const Row rows[] = {
      {"nothing", "", {}},
      {"neighbours are one",
       "7f0000001000-7f0000002000 rw-p 00000000 00:00 0\n"
       "7f0000002000-7f0000003000 rw-p 00000000 00:00 0\n"
       "7f0000005000-7f0000006000 rw-p 00000000 00:00 0\n",
       {range(0x7f0000001000, 0x7f0000003000), range(0x7f0000005000, 0x7f0000006000)}},
      {"the program's end and the heap's",
       "555555554000-555555555000 r-xp 00000000 08:02 11 /bin/prog\n"
       "555555556000-555555557000 rw-p 00002000 08:02 11 /bin/prog\n"
       "555555700000-555555800000 rw-p 00000000 00:00 0 [heap]\n"
       "7f0000001000-7f0000002000 r-xp 00000000 08:02 12 /lib/libc.so\n",
       {range(0x555555554000, 0x555555800000 + kGiB), range(0x7f0000001000, 0x7f0000002000)}},
      {"a program that has no heap yet",
       "555555554000-555555555000 r-xp 00000000 08:02 11 /bin/prog\n"
       "7f0000001000-7f0000002000 r-xp 00000000 08:02 12 /lib/libc.so\n",
       {range(0x555555554000, 0x555555555000 + kGiB), range(0x7f0000001000, 0x7f0000002000)}},
      {"the stack's guard",
       "7ffe00000000-7ffe00021000 rw-p 00000000 00:00 0 [stack]\n",
       {range(0x7ffe00000000 - 64 * kMiB, 0x7ffe00021000)}},
      {"the stack cannot grow past what is mapped below it",
       "555555554000-555555555000 r-xp 00000000 08:02 11 /bin/prog\n"
       "7ffdff000000-7ffdff001000 r-xp 00000000 08:02 12 /lib/libc.so\n"
       "7ffe00000000-7ffe00021000 rw-p 00000000 00:00 0 [stack]\n",
       {range(0x555555554000, 0x555555555000 + kGiB), range(0x7ffdff000000, 0x7ffe00021000)}},
  };
  for (const Row& row : rows)
    EXPECT_EQ(show(taken_ranges(tracee::parse_maps(row.maps))), show(row.expected)) << row.what;
}

}  // namespace
}  // namespace rtrace::mech::code_arena_test
