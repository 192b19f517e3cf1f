// Where a duration is counted. Plain data and plain functions that the tracer and code inside the tracee
// share: nothing here may use a library.
#pragma once

#include <cstdint>

namespace rtrace::agent {

// Log-linear: 32 buckets to each power of two, so that a bucket is at most 1/32 of its least value wide, and
// its middle at most 1/64 (1.6%) off any value in it. Values below 32 have a bucket each, and no value is too
// large.
inline constexpr unsigned kBucketBits = 5;
inline constexpr unsigned kBuckets = (64 - kBucketBits + 1) << kBucketBits;

struct Buckets {
  uint64_t counts[kBuckets];
};

constexpr unsigned bucket_of(uint64_t value) {
  if (value >> kBucketBits == 0) return static_cast<unsigned>(value);
  const unsigned shift = 63 - static_cast<unsigned>(__builtin_clzll(value)) - kBucketBits;
  // The leading bit of the shifted value counts one row more by itself.
  return (shift << kBucketBits) + static_cast<unsigned>(value >> shift);
}

constexpr uint64_t bucket_least(unsigned bucket) {
  constexpr unsigned kRow = 1U << kBucketBits;
  if (bucket < kRow) return bucket;
  return static_cast<uint64_t>(kRow + bucket % kRow) << (bucket / kRow - 1);
}

constexpr uint64_t bucket_greatest(unsigned bucket) {
  return bucket + 1 == kBuckets ? ~uint64_t{0} : bucket_least(bucket + 1) - 1;
}

constexpr uint64_t bucket_middle(unsigned bucket) {
  return bucket_least(bucket) + (bucket_greatest(bucket) - bucket_least(bucket)) / 2;
}

}  // namespace rtrace::agent
