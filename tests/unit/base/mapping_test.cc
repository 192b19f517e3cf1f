#include "rtrace/base/mapping.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <vector>

namespace rtrace::mapping_test {
namespace {

constexpr size_t kPage = 4096;

// Which pages of that memory are there (mincore(2)).
std::vector<unsigned char> present(const Mapping& mapping) {
  std::vector<unsigned char> there(mapping.size() / kPage);
  EXPECT_EQ(mincore(mapping.data(), mapping.size(), there.data()), 0);
  for (auto& page : there) page &= 1;
  return there;
}

class Populate : public testing::Test {
 protected:
  void SetUp() override {
    if (madvise(mapping_.data(), kPage, MADV_POPULATE_WRITE) != 0) GTEST_SKIP() << "a kernel that cannot";
  }
  Mapping mapping_ = Mapping::shared(1024 * kPage);
};

TEST_F(Populate, MakesPagesPresentAndKeepsTheirContents) {
  mapping_.data()[kPage] = std::byte{7};
  if (present(mapping_).back() != 0) GTEST_SKIP() << "a touch brings all of it in";
  populate(mapping_.bytes(), Access::write);
  EXPECT_THAT(present(mapping_), testing::Each(1));
  EXPECT_EQ(mapping_.data()[kPage], std::byte{7});
}

TEST_F(Populate, TakesWhatBeginsAndEndsInsideAPage) {
  populate(mapping_.bytes().subspan(500 * kPage - 1, 2), Access::write);
  const auto there = present(mapping_);
  EXPECT_EQ(there[499] + there[500], 2);
}

TEST_F(Populate, WhatCannotBeIsPassedOver) {
  populate({}, Access::write);
  ASSERT_EQ(mprotect(mapping_.data() + kPage, kPage, PROT_NONE), 0);
  populate(mapping_.bytes(), Access::write);
  ASSERT_EQ(mprotect(mapping_.data(), kPage, PROT_READ), 0);
  populate(mapping_.bytes().first(kPage), Access::write);
  EXPECT_EQ(mapping_.data()[0], std::byte{0});
}

}  // namespace
}  // namespace rtrace::mapping_test
