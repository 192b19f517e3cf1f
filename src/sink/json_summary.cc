#include "rtrace/sink/json_summary.h"

#include <string_view>

#include "durations.h"
#include "histogram.h"
#include "json_writer.h"

namespace rtrace::sink {
namespace {

// Durations by rank, where any were counted.
void append_ranks(JsonWriter& json, const SummaryLine& line) {
  if (line.buckets == nullptr) return;
  static constexpr std::pair<std::string_view, unsigned> kRanks[] = {
      {"p50", 500}, {"p95", 950}, {"p99", 990}};
  for (const auto& [name, per_mille] : kRanks)
    json.member(name, percentile(*line.buckets, per_mille, line.numbers.max_ns));
  json.member("max", line.numbers.max_ns);
}

void append_histogram(JsonWriter& json, const SummaryLine& line) {
  if (line.wanted == 0 || line.buckets == nullptr) return;
  json.key("histogram");
  json.begin_array();
  for (const HistogramRow& row : histogram_rows(*line.buckets)) {
    json.begin_object();
    json.member("from", row.from);
    json.member("to", row.to);
    json.member("count", row.count);
    json.end_object();
  }
  json.end_array();
}

void append_line(std::string& out, const SummaryLine& function) {
  const CallNumbers& numbers = function.numbers;
  std::string line;
  JsonWriter json(line);
  json.begin_object();
  json.member("type", std::string_view("summary"));
  json.member("name", std::string_view(function.name));
  json.member("calls", numbers.calls);
  json.member("returned", numbers.returned);
  json.member("errors", numbers.errors);
  json.member("total", numbers.total_ns());
  json.member("self", numbers.self_ns);
  append_ranks(json, function);
  append_histogram(json, function);
  json.end_object();
  (out += line) += '\n';
}

}  // namespace

std::string render_summary_json(const SummaryTable& table, JsonRows rows) {
  std::string out;
  for (const SummaryLine& line : summary_lines(table))
    if (rows == JsonRows::all || line.wanted != 0) append_line(out, line);
  return out;
}

}  // namespace rtrace::sink
