#include "rtrace/base/mapping.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>

namespace rtrace {
namespace {

constexpr size_t kPage = 4096;

// How many pages of that memory are there (mincore(2)).
size_t present_pages(const Mapping& mapping) {
  std::array<unsigned char, 16> there{};
  EXPECT_EQ(mincore(mapping.data(), mapping.size(), there.data()), 0);
  return static_cast<size_t>(
      std::count_if(there.begin(), there.end(), [](auto one) { return (one & 1) != 0; }));
}

TEST(Populate, MakesPagesPresentAndKeepsTheirContents) {
  const Mapping mapping = Mapping::shared(8 * kPage);
  mapping.data()[kPage] = std::byte{7};
  ASSERT_EQ(present_pages(mapping), 1U);
  populate(mapping.bytes(), Access::write);
  EXPECT_EQ(present_pages(mapping), 8U);
  EXPECT_EQ(mapping.data()[kPage], std::byte{7});
}

TEST(Populate, TakesWhatBeginsAndEndsInsideAPage) {
  const Mapping mapping = Mapping::shared(8 * kPage);
  populate(mapping.bytes().subspan(2 * kPage - 1, 2), Access::write);
  EXPECT_EQ(present_pages(mapping), 2U);
}

TEST(Populate, WhatCannotBeIsPassedOver) {
  populate({}, Access::write);
  const Mapping mapping = Mapping::shared(2 * kPage);
  ASSERT_EQ(mprotect(mapping.data() + kPage, kPage, PROT_NONE), 0);
  populate(mapping.bytes(), Access::write);
  ASSERT_EQ(mprotect(mapping.data(), kPage, PROT_READ), 0);
  populate(mapping.bytes().first(kPage), Access::write);
  EXPECT_EQ(mapping.data()[0], std::byte{0});
}

}  // namespace
}  // namespace rtrace
