#include "../../../src/mech/left_wrappers.h"

#include <gtest/gtest.h>

namespace rtrace::mech {
namespace {

std::vector<std::byte> bytes(std::initializer_list<int> values) {
  std::vector<std::byte> all;
  for (int value : values) all.push_back(static_cast<std::byte>(value));
  return all;
}

// A breakpoint, a function's near jump, and a short one at 0x2010 to a near one at 0x2008.
std::vector<ForeignBytes> found() {
  return {{VirtAddr{0x1000}, bytes({0x55}), bytes({0xcc})},
          {VirtAddr{0x2008}, bytes({0x90, 0x90, 0x90, 0x90, 0x90}), bytes({0xe9, 1, 0, 0, 0})},
          {VirtAddr{0x2010}, bytes({0x48, 0x89}), bytes({0xeb, 0xf6})},
          {VirtAddr{0x3000}, bytes({0x55, 0x53, 0x51, 0x52, 0x50}), bytes({0xe9, 2, 0, 0, 0})}};
}

TEST(LeftWrappers, AJumpThatAShortOneLeadsToIsAHopAndGoesLast) {
  auto all = found();
  order_jumps(all);
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all.back().address, VirtAddr{0x2008});
  for (const ForeignBytes& each : all)
    EXPECT_EQ(each.hop, each.address == VirtAddr{0x2008}) << each.address.value;
}

TEST(LeftWrappers, JumpsAreThoseAtEntries) {
  auto all = found();
  order_jumps(all);
  std::vector<bool> jumps;
  for (const ForeignBytes& each : all) jumps.push_back(is_jump(each));
  EXPECT_EQ(jumps, (std::vector<bool>{false, true, true, false}));
  EXPECT_FALSE(is_jump({VirtAddr{0x1000}, bytes({0x55, 0x53}), bytes({0x0f, 0x05})}));
}

TEST(LeftWrappers, AWordOfTheStackOrThePcLeadsToAHop) {
  Remains remains;
  remains.bytes = found();
  order_jumps(remains.bytes);
  const auto leads = [&](uint64_t pc, std::vector<uint64_t> stack) {
    return leads_to_hop({1, VirtAddr{pc}, 0, std::move(stack)}, remains);
  };
  EXPECT_TRUE(leads(0x2008, {}));
  EXPECT_TRUE(leads(0x5000, {7, 0x2008, 9}));
  EXPECT_FALSE(leads(0x2009, {0x3000, 0x2010, 0x2007}));
}

}  // namespace
}  // namespace rtrace::mech
