#include "rtrace/sink/summary_sink.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iterator>
#include <string_view>
#include <variant>
#include <vector>

#include "names.h"

namespace rtrace::sink {
namespace {

// The table is read by another process, also after this one was killed between any two instructions: each
// number is stored whole, and a row counts only when it is complete.
void publish(uint64_t& number, uint64_t value) {
  std::atomic_ref(number).store(value, std::memory_order_release);
}
void add(uint64_t& number, uint64_t amount) {
  publish(number, number + amount);
}

double percent(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

double seconds(uint64_t nanoseconds) {
  return static_cast<double>(nanoseconds) / 1e9;
}

std::string_view name_of(const SummaryRow& row) {
  return {row.name, strnlen(row.name, sizeof row.name)};
}

}  // namespace

SummarySink::SummarySink(SummaryTable& table, bool demangle) : table_(table), demangle_(demangle) {}

void SummarySink::take(const decode::Record& record) {
  if (const auto* entered = std::get_if<decode::CallEntered>(&record.body)) {
    SummaryRow* row = row_of(*entered->label);
    add(row != nullptr ? row->calls : table_.overflowed, 1);
  } else if (const auto* returned = std::get_if<decode::CallReturned>(&record.body)) {
    SummaryRow* row = row_of(*returned->label);
    if (row == nullptr) return;
    add(row->total_ns, returned->duration);
    add(row->returned, 1);
  }
}

SummaryRow* SummarySink::row_of(const decode::ProbeLabel& label) {
  auto [found, added] = rows_.try_emplace(&label, nullptr);
  if (added) found->second = new_row(label);
  return found->second;
}

SummaryRow* SummarySink::new_row(const decode::ProbeLabel& label) {
  std::string name = printable_label(label, demangle_, false);
  auto [found, added] = by_name_.try_emplace({name, label.object, label.kind}, nullptr);
  if (!added || table_.used == SummaryTable::kRows) return found->second;
  SummaryRow& row = table_.rows[table_.used];
  name.resize(std::min(name.size(), sizeof row.name - 1));
  std::memcpy(row.name, name.c_str(), name.size() + 1);
  publish(table_.used, table_.used + 1);
  return found->second = &row;
}

std::string render_summary(const SummaryTable& table) {
  std::vector<SummaryRow> rows(table.rows, table.rows + std::min<uint64_t>(table.used, SummaryTable::kRows));
  if (table.overflowed > 0) {
    SummaryRow others{};
    std::strcpy(others.name, "(others)");
    others.calls = table.overflowed;
    rows.push_back(others);
  }
  std::sort(rows.begin(), rows.end(), [](const SummaryRow& a, const SummaryRow& b) {
    if (a.total_ns != b.total_ns) return a.total_ns > b.total_ns;
    return a.calls != b.calls ? a.calls > b.calls : name_of(a) < name_of(b);
  });
  uint64_t calls = 0, total = 0;
  for (const SummaryRow& row : rows) {
    calls += row.calls;
    total += row.total_ns;
  }

  std::string out =
      "% time     seconds  usecs/call     calls      function\n"
      "------ ----------- ----------- --------- --------------------\n";
  auto to = std::back_inserter(out);
  for (const SummaryRow& row : rows) {
    uint64_t each = row.returned == 0 ? 0 : row.total_ns / 1000 / row.returned;
    fmt::format_to(to, "{:6.2f} {:11.6f} {:11} {:9} {}\n", percent(row.total_ns, total),
                   seconds(row.total_ns), each, row.calls, name_of(row));
  }
  out += "------ ----------- ----------- --------- --------------------\n";
  fmt::format_to(to, "100.00 {:11.6f} {:11} {:9} total\n", seconds(total), "", calls);
  return out;
}

}  // namespace rtrace::sink
