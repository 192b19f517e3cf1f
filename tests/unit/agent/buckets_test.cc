#include "rtrace/agent/buckets.h"

#include <gtest/gtest.h>

#include <random>

namespace rtrace::agent::buckets_test {
namespace {

TEST(Buckets, FollowEachOtherWithoutGapOrOverlap) {
  EXPECT_EQ(bucket_least(0), 0u);
  for (unsigned bucket = 0; bucket < kBuckets; ++bucket) {
    ASSERT_EQ(bucket_of(bucket_least(bucket)), bucket);
    ASSERT_EQ(bucket_of(bucket_greatest(bucket)), bucket);
    ASSERT_LE(bucket_least(bucket), bucket_greatest(bucket));
    if (bucket == 0) continue;
    ASSERT_EQ(bucket_greatest(bucket - 1) + 1, bucket_least(bucket));
  }
  EXPECT_EQ(bucket_greatest(kBuckets - 1), ~uint64_t{0});
}

void expect_near(uint64_t value) {
  const unsigned bucket = bucket_of(value);
  ASSERT_LT(bucket, kBuckets) << value;
  const uint64_t middle = bucket_middle(bucket);
  const uint64_t off = middle > value ? middle - value : value - middle;
  ASSERT_LE(off, value / 100 * 3 + value % 100 * 3 / 100) << value << " is shown as " << middle;
}

TEST(Buckets, TheirMiddleIsWithin3PercentOfEachValueUpToAMillion) {
  for (uint64_t value = 0; value < 1'000'000; ++value) expect_near(value);
}

TEST(Buckets, TheirMiddleIsWithin3PercentOfValuesOfAnySize) {
  std::mt19937_64 random(41);
  for (int i = 0; i < 1'000'000; ++i) expect_near(random() >> random() % 64);
  for (unsigned bucket = 0; bucket < kBuckets; ++bucket) {
    expect_near(bucket_least(bucket));
    expect_near(bucket_greatest(bucket));
  }
}

}  // namespace
}  // namespace rtrace::agent::buckets_test
