#include "../../../src/sink/shares.h"

#include <gtest/gtest.h>

namespace rtrace::sink::shares_test {
namespace {

TEST(FairShare, WhatHasRoomStaysWhole) {
  EXPECT_EQ(fair_share({3, 5, 2}, 10), 5u);
}

TEST(FairShare, TheLongOnesGetAsMuchEach) {
  EXPECT_EQ(fair_share({1000, 2, 4000, 10}, 112), 50u);
  EXPECT_EQ(fair_share({100, 100, 100}, 10), 3u);
}

TEST(FairShare, WithoutRoomNothingIsLeft) {
  EXPECT_EQ(fair_share({1, 1}, 0), 0u);
  EXPECT_EQ(fair_share({}, 10), 0u);
}

}  // namespace
}  // namespace rtrace::sink::shares_test
