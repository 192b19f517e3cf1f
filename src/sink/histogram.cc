// Histograms (--hist): rows of 1-2-5; for people with bars as wide as the terminal.
#include "histogram.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "durations.h"
#include "rtrace/sink/summary_table.h"

namespace rtrace::sink {
namespace {

// 1, 2, 5, 10, 20, ... nanoseconds.
constexpr unsigned kSteps = 58;

constexpr uint64_t step(unsigned index) {
  uint64_t value = index % 3 == 0 ? 1 : index % 3 == 1 ? 2 : 5;
  for (unsigned i = 0; i < index / 3; ++i) value *= 10;
  return value;
}

// "200us": a step is a whole number of some unit.
std::string name_of_step(unsigned index) {
  static constexpr const char* kUnits[] = {"ns", "us", "ms", "s"};
  const unsigned unit = std::min(index / 9, 3U);
  return fmt::format("{}{}", step(index - unit * 9), kUnits[unit]);
}

unsigned row_of(uint64_t nanoseconds) {
  unsigned row = 0;
  while (row + 1 < kSteps && step(row + 1) <= nanoseconds) ++row;
  return row;
}

void append_rows(std::string& out, const agent::Buckets& buckets, unsigned width) {
  const auto rows = histogram_rows(buckets);
  uint64_t most = 1;
  for (const HistogramRow& row : rows) most = std::max(most, row.count);
  const size_t digits = fmt::formatted_size("{}", most);
  const size_t before = 2 + 5 + 3 + 5 + 2 + digits + 1;
  const auto room = static_cast<double>(std::max<size_t>(width, before + 10) - before);
  auto next = rows.begin();
  for (unsigned row = rows.front().step; next != rows.end(); ++row) {
    const uint64_t count = next->step == row ? (next++)->count : 0;
    const auto bar = static_cast<size_t>(room * static_cast<double>(count) / static_cast<double>(most));
    fmt::format_to(std::back_inserter(out), "  {:>5} - {:>5}  {:>{}}{}{}\n", name_of_step(row),
                   name_of_step(row + 1), count, digits, count > 0 ? " " : "",
                   std::string(std::max<size_t>(bar, count > 0), '#'));
  }
}

void append_histogram(std::string& out, const SummaryLine& line, unsigned width) {
  const CallNumbers& numbers = line.numbers;
  auto to = std::back_inserter(out);
  fmt::format_to(to, "\n{}: {} call{} returned", line.name, numbers.returned,
                 numbers.returned == 1 ? "" : "s");
  if (numbers.calls > numbers.returned) fmt::format_to(to, ", {} did not", numbers.calls - numbers.returned);
  if (numbers.returned > 0 && line.buckets == nullptr)
    fmt::format_to(to, "; durations are not kept: {} functions came before it", SummaryTable::kBlocks);
  out += '\n';
  if (line.buckets == nullptr || count_of(*line.buckets) == 0) return;
  append_rows(out, *line.buckets, width);
  const auto rank = [&](unsigned per_mille) {
    return short_duration(percentile(*line.buckets, per_mille, numbers.max_ns));
  };
  fmt::format_to(to, "  p50 {}  p95 {}  p99 {}  max {}\n", rank(500), rank(950), rank(990),
                 short_duration(numbers.max_ns));
}

}  // namespace

std::vector<HistogramRow> histogram_rows(const agent::Buckets& buckets) {
  std::vector<HistogramRow> rows;
  for (unsigned bucket = 0; bucket < agent::kBuckets; ++bucket) {
    if (buckets.counts[bucket] == 0) continue;
    const unsigned row = row_of(agent::bucket_middle(bucket));
    if (rows.empty() || rows.back().step != row) rows.push_back({row, step(row), step(row + 1), 0});
    rows.back().count += buckets.counts[bucket];
  }
  return rows;
}

std::string render_histograms(const SummaryTable& table, const std::vector<std::string>& names,
                              unsigned width, std::string_view selecting) {
  if (names.empty()) return {};
  const std::string let_through = selecting.empty() ? "" : fmt::format(" that {} let through", selecting);
  std::string out;
  const auto lines = summary_lines(table);
  for (size_t i = 0; i < names.size() && i < kMaxHistograms; ++i) {
    const uint64_t bit = uint64_t{1} << i;
    const bool found = std::any_of(lines.begin(), lines.end(),
                                   [&](const SummaryLine& line) { return (line.wanted & bit) != 0; });
    if (!found) fmt::format_to(std::back_inserter(out), "\n{}: no call was seen{}\n", names[i], let_through);
    for (const SummaryLine& line : lines)
      if ((line.wanted & bit) != 0) append_histogram(out, line, width);
  }
  return out;
}

}  // namespace rtrace::sink
