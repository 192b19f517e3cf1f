// Durations in tables: as text, and as ranks.
#pragma once

#include <cstdint>
#include <string>

#include "rtrace/agent/buckets.h"

namespace rtrace::sink {

// "412ns", "1.2ms", "1.00s": at most six columns up to 27 hours.
std::string short_duration(uint64_t nanoseconds);

// The duration that `per_mille` of those in the buckets do not exceed, within 3%, and never more than `max`,
// the greatest of them. 0 where there are none.
uint64_t percentile(const agent::Buckets& buckets, unsigned per_mille, uint64_t max);

uint64_t count_of(const agent::Buckets& buckets);

}  // namespace rtrace::sink
