// A summary table with its sink, and calls for it.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "rtrace/base/mapping.h"
#include "rtrace/sink/summary_table.h"
#include "sink/records.h"

namespace rtrace::sink::testing {

struct Returned {
  uint64_t duration = 0;
  uint64_t self = 0;
  std::optional<int> error = std::nullopt;
  bool failed = false;
  bool recursive = false;
};

class SummaryTest : public ::testing::Test {
 protected:
  void calls(const decode::ProbeLabel& label, uint64_t count, uint64_t each_ns) {
    for (uint64_t i = 0; i < count; ++i) returned(label, {.duration = each_ns, .self = each_ns});
  }
  void returned(const decode::ProbeLabel& label, const Returned& how) {
    sink.take(thread.enter(label, ++last, {}));
    decode::CallReturned call;
    call.label = &label;
    call.call = event::CallId{last};
    call.duration = how.duration;
    call.self = how.self;
    call.error = how.error;
    call.failed = how.failed;
    call.recursive = how.recursive;
    sink.take(thread(std::move(call)));
  }
  const CallNumbers& row(size_t index) const {
    const SummaryRow& row = table.rows[index];
    return row.numbers[row.version % 2];
  }
  std::string own_table(SortKey key = SortKey::time) const {
    return render_summary(table, key, ShareShown::subtracted);
  }

  // Pages that nothing was written to are zeros, as the engine's.
  Mapping memory = Mapping::shared(sizeof(SummaryTable));
  SummaryTable& table = *reinterpret_cast<SummaryTable*>(memory.data());
  std::vector<std::string> histograms = {"slow", "never"};
  SummarySink sink{table, false, histograms};
  Thread thread{100};
  uint64_t last = 0;
};

}  // namespace rtrace::sink::testing
