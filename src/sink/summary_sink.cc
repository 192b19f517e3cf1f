#include "rtrace/sink/summary_sink.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>
#include <variant>

#include "names.h"
#include "rtrace/base/text.h"

namespace rtrace::sink {
namespace {

// The table is read by another process, also after this one was killed between any two instructions: what is
// new is complete before the number that makes it count is stored.
void publish(uint64_t& number, uint64_t value) {
  std::atomic_ref(number).store(value, std::memory_order_release);
}
void add(uint64_t& number, uint64_t amount) {
  publish(number, number + amount);
}

template <typename Change>
void change(SummaryRow& row, Change apply) {
  CallNumbers& next = row.numbers[(row.version + 1) % 2];
  next = row.numbers[row.version % 2];
  apply(next);
  publish(row.version, row.version + 1);
}

// C++ has names of thousands of bytes; each of them has its part of what is left at least.
SummaryName keep(SummaryTable& table, std::string name) {
  constexpr std::string_view kDots = "...";
  constexpr size_t kShare = 64;  // of what is left, one of so many
  const size_t room = (SummaryTable::kNames - table.names_size) / kShare;
  if (name.size() > room) {
    if (room < kDots.size()) return {};
    name.resize(room - kDots.size());
    name += kDots;
  }
  const SummaryName kept{table.names_size, name.size()};
  std::memcpy(table.names + kept.at, name.data(), kept.size);
  publish(table.names_size, kept.at + kept.size);
  return kept;
}

}  // namespace

std::string_view text_of(const SummaryTable& table, SummaryName name) {
  if (name.at > SummaryTable::kNames || name.size > SummaryTable::kNames - name.at) return {};
  return {table.names + name.at, name.size};
}

void add_note(SummaryTable& table, std::string_view text, std::string_view name) {
  const std::string line = fmt::format("{}\t{}\n", text, name);
  const std::string_view said(table.notes, table.notes_size);
  if (said.starts_with(line) || said.find("\n" + line) != said.npos) return;
  if (line.size() > SummaryTable::kNotes - table.notes_size) return add(table.notes_left, 1);
  std::memcpy(table.notes + table.notes_size, line.data(), line.size());
  add(table.notes_size, line.size());
}

bool is_named(const decode::ProbeLabel& label, const std::string& name) {
  if (name == label.name || name == label.text()) return true;
  const std::string& object = label.object.empty() ? label.defined_in : label.object;
  if (!object.empty() && name == label.name + "@" + object) return true;
  const auto demangled = demangle(label.name);
  return demangled && name == *demangled;
}

SummarySink::SummarySink(SummaryTable& table, bool demangle, std::vector<std::string> histograms)
    : table_(table), demangle_(demangle), histograms_(std::move(histograms)) {}

void SummarySink::take(const decode::Record& record) {
  if (const auto* call = std::get_if<decode::CallEntered>(&record.body)) entered(*call);
  if (const auto* call = std::get_if<decode::CallReturned>(&record.body)) returned(*call);
  if (const auto* call = std::get_if<decode::CallAbandoned>(&record.body)) abandoned(*call);
  if (const auto* calls = std::get_if<decode::CallsCounted>(&record.body)) counted(*calls);
}

// A call that a fork child has from its parent is the parent's: it was entered once.
void SummarySink::entered(const decode::CallEntered& call) {
  if (call.inherited) return;
  SummaryRow* row = row_of(*call.label);
  if (row == nullptr) return add(table_.overflowed, 1);
  change(*row, [&](CallNumbers& numbers) {
    ++numbers.calls;
    if (call.label->instant)
      ++numbers.instants;
    else if (call.unseen_return)
      ++numbers.unreturned;
  });
}

void SummarySink::returned(const decode::CallReturned& call) {
  if (call.inherited) return;
  SummaryRow* row = row_of(*call.label);
  if (row == nullptr) return;
  change(*row, [&](CallNumbers& numbers) {
    ++numbers.returned;
    numbers.errors += call.failed || call.error;
    numbers.all_ns += call.duration;
    if (!call.recursive) numbers.outermost_ns += call.duration;
    numbers.self_ns += call.self;
    numbers.max_ns = std::max(numbers.max_ns, call.duration);
  });
  count_duration(*row, call.duration);
}

void SummarySink::abandoned(const decode::CallAbandoned& call) {
  if (call.inherited) return;
  SummaryRow* row = row_of(*call.label);
  if (row == nullptr) return;
  change(*row, [&](CallNumbers& numbers) {
    ++numbers.unreturned;
    if (!call.recursive) numbers.unreturned_ns += call.duration;
    numbers.self_ns += call.self;
  });
}

void SummarySink::counted(const decode::CallsCounted& calls) {
  SummaryRow* row = row_of(*calls.label);
  if (row == nullptr) return add(table_.overflowed, calls.calls);
  change(*row, [&](CallNumbers& numbers) {
    numbers.calls += calls.calls;
    numbers.returned += calls.returned;
    numbers.errors += calls.errors;
    numbers.all_ns += calls.total;
    numbers.outermost_ns += calls.outermost;
    numbers.self_ns += calls.self;
    numbers.max_ns = std::max(numbers.max_ns, calls.greatest);
  });
  if (row->block == 0 && calls.returned > 0) take_block(*row);
  if (row->block == 0) return;
  uint64_t(&counts)[agent::kBuckets] = table_.blocks[row->block - 1].counts;
  for (size_t i = 0; i < calls.durations.size() && i < agent::kBuckets; ++i)
    if (calls.durations[i] > 0) add(counts[i], calls.durations[i]);
}

void SummarySink::count_duration(SummaryRow& row, uint64_t duration) {
  if (row.block == 0) take_block(row);
  if (row.block == 0) return;
  add(table_.blocks[row.block - 1].counts[agent::bucket_of(duration)], 1);
}

void SummarySink::take_block(SummaryRow& row) {
  if (table_.blocks_used == SummaryTable::kBlocks) return;
  publish(table_.blocks_used, table_.blocks_used + 1);
  publish(row.block, table_.blocks_used);
}

SummaryRow* SummarySink::row_of(const decode::ProbeLabel& label) {
  auto [found, added] = rows_.try_emplace(&label, nullptr);
  if (added) found->second = new_row(label);
  return found->second;
}

uint64_t SummarySink::wanted(const decode::ProbeLabel& label, const std::string& printed) const {
  uint64_t bits = 0;
  for (size_t i = 0; i < histograms_.size() && i < kMaxHistograms; ++i)
    if (histograms_[i] == printed || is_named(label, histograms_[i])) bits |= uint64_t{1} << i;
  return bits;
}

SummaryRow* SummarySink::new_row(const decode::ProbeLabel& label) {
  const std::string name = printable_label(label, demangle_, false);
  auto [found, added] = by_name_.try_emplace({name, label.object, label.defined_in, label.kind}, nullptr);
  if (!added || table_.used == SummaryTable::kRows) return found->second;
  SummaryRow& row = table_.rows[table_.used];
  row.name = keep(table_, name);
  std::string object;
  append_printable(object, label.object.empty() ? label.defined_in : label.object, false);
  row.object = keep(table_, std::move(object));
  row.wanted = wanted(label, name);
  if (row.wanted != 0) take_block(row);
  publish(table_.used, table_.used + 1);
  return found->second = &row;
}

}  // namespace rtrace::sink
