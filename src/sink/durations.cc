#include "durations.h"

#include <fmt/format.h>

#include <algorithm>

namespace rtrace::sink {
namespace {

constexpr uint64_t kMicro = 1'000, kMilli = 1'000'000, kSecond = 1'000'000'000;

}  // namespace

std::string short_duration(uint64_t nanoseconds) {
  const auto in = [&](uint64_t unit) { return static_cast<double>(nanoseconds) / static_cast<double>(unit); };
  // The borders are where rounding would give a digit more.
  if (nanoseconds < kMicro) return fmt::format("{}ns", nanoseconds);
  if (nanoseconds < 99'950) return fmt::format("{:.1f}us", in(kMicro));
  if (nanoseconds < kMilli - kMicro / 2) return fmt::format("{:.0f}us", in(kMicro));
  if (nanoseconds < 99'950 * kMicro) return fmt::format("{:.1f}ms", in(kMilli));
  if (nanoseconds < kSecond - kMilli / 2) return fmt::format("{:.0f}ms", in(kMilli));
  if (nanoseconds < 99'995 * kMilli) return fmt::format("{:.2f}s", in(kSecond));
  return fmt::format("{:.0f}s", in(kSecond));
}

uint64_t count_of(const agent::Buckets& buckets) {
  uint64_t count = 0;
  for (uint64_t each : buckets.counts) count += each;
  return count;
}

// The nearest rank: of 100 durations the 99th is p99.
uint64_t percentile(const agent::Buckets& buckets, unsigned per_mille, uint64_t max) {
  const uint64_t count = count_of(buckets);
  if (count == 0) return 0;
  const uint64_t rank =
      std::max<uint64_t>(1, count / 1000 * per_mille + (count % 1000 * per_mille + 999) / 1000);
  uint64_t seen = 0;
  unsigned bucket = 0;
  for (; bucket + 1 < agent::kBuckets; ++bucket) {
    seen += buckets.counts[bucket];
    if (seen >= rank) break;
  }
  return std::min(agent::bucket_middle(bucket), max);
}

}  // namespace rtrace::sink
