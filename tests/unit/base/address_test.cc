#include "rtrace/base/address.h"

#include <gtest/gtest.h>

#include <type_traits>
#include <unordered_set>

namespace rtrace::address_test {
namespace {

template <typename A, typename B>
concept Subtractable = requires(A a, B b) {
  a - b;
};
template <typename A, typename B>
concept Addable = requires(A a, B b) {
  a + b;
};

TEST(Address, KindsDoNotMix) {
  static_assert(!std::is_convertible_v<VirtAddr, ElfAddr> && !std::is_convertible_v<uint64_t, VirtAddr>);
  static_assert(Subtractable<VirtAddr, VirtAddr> && !Subtractable<VirtAddr, ElfAddr>);
  static_assert(!Addable<VirtAddr, VirtAddr> && !Addable<FileOffset, LoadBias>);
  static_assert(std::is_same_v<decltype(ElfAddr{} + LoadBias{}), VirtAddr>);
  static_assert(std::is_same_v<decltype(VirtAddr{} - VirtAddr{}), uint64_t>);
}

TEST(Address, TheLoadBiasGoesThereAndBack) {
  constexpr LoadBias bias{0x7f0000001000};
  constexpr ElfAddr in_file{0x2340};
  EXPECT_EQ(in_file + bias, VirtAddr{0x7f0000003340});
  EXPECT_EQ((in_file + bias) - bias, in_file);
}

TEST(Address, ABiasBelowTheLinkAddressWraps) {
  // A prelinked object that is mapped lower than it asked for.
  constexpr LoadBias bias{0 - uint64_t{0x1000}};
  EXPECT_EQ(ElfAddr{0x400000} + bias, VirtAddr{0x3ff000});
  EXPECT_EQ(VirtAddr{0x3ff000} - bias, ElfAddr{0x400000});
}

TEST(Address, OrdersHashesAndPrints) {
  EXPECT_LT(VirtAddr{1}, VirtAddr{2});
  EXPECT_EQ(VirtAddr{10} + 5 - 3, VirtAddr{12});
  EXPECT_EQ(VirtAddr{10} - VirtAddr{4}, 6u);
  EXPECT_FALSE(VirtAddr{});
  EXPECT_TRUE(VirtAddr{1});
  EXPECT_EQ((std::unordered_set<VirtAddr>{{1}, {2}, {1}}).size(), 2u);
  EXPECT_EQ(fmt::format("{}", VirtAddr{0x7f00}), "0x7f00");
}

TEST(Range, IsHalfOpen) {
  constexpr Range range{{10}, {20}};
  EXPECT_FALSE(range.contains(VirtAddr{9}));
  EXPECT_TRUE(range.contains(VirtAddr{10}));
  EXPECT_TRUE(range.contains(VirtAddr{19}));
  EXPECT_FALSE(range.contains(VirtAddr{20}));
  EXPECT_EQ(range.size(), 10u);
  EXPECT_FALSE(range.empty());
  EXPECT_TRUE((Range{{10}, {10}}).empty());
}

struct Pair {
  Range a, b;
  bool overlap, a_contains_b;
};

TEST(Range, OverlapAndContainmentAtTheBorders) {
  const Pair rows[] = {
      {{{10}, {20}}, {{20}, {30}}, false, false}, {{{10}, {20}}, {{19}, {30}}, true, false},
      {{{10}, {20}}, {{0}, {10}}, false, false},  {{{10}, {20}}, {{0}, {11}}, true, false},
      {{{10}, {20}}, {{10}, {20}}, true, true},   {{{10}, {20}}, {{12}, {15}}, true, true},
      {{{10}, {20}}, {{5}, {25}}, true, false},   {{{10}, {20}}, {{15}, {15}}, false, true},
      {{{10}, {20}}, {{10}, {21}}, true, false},  {{{10}, {20}}, {{30}, {40}}, false, false},
  };
  for (const Pair& row : rows) {
    EXPECT_EQ(row.a.overlaps(row.b), row.overlap) << row.b.begin.value << ".." << row.b.end.value;
    EXPECT_EQ(row.b.overlaps(row.a), row.overlap) << row.b.begin.value << ".." << row.b.end.value;
    EXPECT_EQ(row.a.contains(row.b), row.a_contains_b) << row.b.begin.value << ".." << row.b.end.value;
  }
}

}  // namespace
}  // namespace rtrace::address_test
