// The summary as it is printed: rtrace's own table, ltrace's, and histograms.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "rtrace/sink/summary_sink.h"

namespace rtrace::sink {

// Of one function, or of one in one object where several have its name.
struct SummaryLine {
  std::string name;
  CallNumbers numbers{};
  const agent::Buckets* buckets = nullptr;  // nullptr where nothing returned or the table had none left
  uint64_t wanted = 0;                      // as in SummaryRow
};

// What the table holds, in the order in which the functions were first called, and at the end, as `(others)`,
// calls that found no row. Two functions that would be shown by one name become name@object.
std::vector<SummaryLine> summary_lines(const SummaryTable& table);

enum class SortKey : uint8_t { time, self, calls, max, p99, name };
// The words of --sort, in the enumeration's order.
const std::vector<std::string>& sort_keys();

// What the times in the table still hold of rtrace's own share.
enum class ShareShown : uint8_t { subtracted, contained };

// rtrace's table. `% time` is the part that a function's own time has in that of all; `seconds` counts a
// function within itself once; both hold the time of calls that did not return, and end in `+` then.
// `width`: columns are left out until it fits a terminal that is so wide.
std::string render_summary(const SummaryTable& table, SortKey sort, ShareShown share,
                           size_t width = std::numeric_limits<size_t>::max());

// ltrace's table, sorted by time, with its last line `100.00 ... total`. Calls that never returned count as
// calls, but not in usecs/call.
std::string render_ltrace_summary(const SummaryTable& table);

// The histograms of these names, which are those that the sink was given, `width` columns wide. `selecting`:
// the options that kept calls from it, empty: none.
std::string render_histograms(const SummaryTable& table, const std::vector<std::string>& names,
                              unsigned width, std::string_view selecting = {});

}  // namespace rtrace::sink
