#pragma once

#include <cstdint>
#include <vector>

#include "rtrace/agent/buckets.h"

namespace rtrace::sink {

// Durations from `from` nanoseconds to less than `to`, in steps of 1, 2, 5, 10, 20, ...
struct HistogramRow {
  unsigned step;
  uint64_t from, to;
  uint64_t count;
};

// By ascending duration, those without any left out.
std::vector<HistogramRow> histogram_rows(const agent::Buckets& buckets);

}  // namespace rtrace::sink
