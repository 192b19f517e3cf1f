#include "rtrace/sink/summary_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <map>
#include <tuple>

#include "durations.h"

namespace rtrace::sink {
namespace {

double seconds(uint64_t nanoseconds) {
  return static_cast<double>(nanoseconds) / 1e9;
}

// Rounded down, so that the column never adds up to more than 100.
std::string percent(uint64_t part, uint64_t whole) {
  const auto hundredths =
      whole == 0 ? 0 : static_cast<uint64_t>(static_cast<__uint128_t>(part) * 10'000 / whole);
  return fmt::format("{}.{:02}", hundredths / 100, hundredths % 100);
}

std::string mean(const CallNumbers& numbers) {
  if (numbers.returned == 0) return "-";
  const double each = static_cast<double>(numbers.all_ns) / 1e3 / static_cast<double>(numbers.returned);
  return fmt::format("{:.{}f}", each, each < 10 ? 3 : each < 100 ? 2 : 0);
}

uint64_t p99(const SummaryLine& line) {
  return line.buckets == nullptr ? 0 : percentile(*line.buckets, 990, line.numbers.max_ns);
}

void sort_lines(std::vector<SummaryLine>& lines, SortKey key) {
  const auto rank = [key](const SummaryLine& line) -> uint64_t {
    switch (key) {
      case SortKey::time:
        return line.numbers.total_ns();
      case SortKey::self:
        return line.numbers.self_ns;
      case SortKey::calls:
        return line.numbers.calls;
      case SortKey::max:
        return line.numbers.max_ns;
      case SortKey::p99:
        return p99(line);
      case SortKey::name:
        return 0;
    }
    return 0;
  };
  std::stable_sort(lines.begin(), lines.end(), [&](const SummaryLine& a, const SummaryLine& b) {
    return std::tuple(rank(b), b.numbers.calls * (key != SortKey::name), a.name) <
           std::tuple(rank(a), a.numbers.calls * (key != SortKey::name), b.name);
  });
}

// Columns as wide as what is in them; all but the last end at one column, the last begins at one.
constexpr size_t kColumns = 11;
using Cells = std::array<std::string, kColumns>;
const Cells kTitles = {"% time", "seconds", "usecs/call", "calls", "errors",  "p50",
                       "p95",    "p99",     "max",        "self",  "function"};

// What a narrow terminal has no room for goes in this order: what others tell too comes first.
constexpr std::array<size_t, 7> kLeastWanted = {2, 6, 5, 1, 7, 4, 9};
constexpr size_t kNames = 20;

// A width of 0: the column is left out.
using Widths = std::array<size_t, kColumns>;

void append_row(std::string& out, const Cells& cells, const Widths& widths) {
  for (size_t i = 0; i + 1 < kColumns; ++i)
    if (widths[i] > 0) fmt::format_to(std::back_inserter(out), "{:>{}} ", cells[i], widths[i]);
  out += cells.back() + "\n";
}

// Until most names have room too; what is longer than most goes on into the next line.
void fit(Widths& widths, size_t longest_name, size_t width) {
  const size_t names = std::clamp(longest_name, kNames, std::max(kNames, width / 2));
  const auto needed = [&] {
    size_t sum = names;
    for (size_t i = 0; i + 1 < kColumns; ++i) sum += widths[i] > 0 ? widths[i] + 1 : 0;
    return sum;
  };
  for (size_t column : kLeastWanted)
    if (needed() > width) widths[column] = 0;
}

std::string laid_out(const std::vector<Cells>& rows, const Cells& total, size_t width) {
  Widths widths{};
  for (size_t i = 0; i < kColumns; ++i) {
    widths[i] = std::max(kTitles[i].size(), total[i].size());
    for (const Cells& cells : rows) widths[i] = std::max(widths[i], cells[i].size());
  }
  fit(widths, widths.back(), width);
  widths.back() = kNames;
  Cells rule;
  for (size_t i = 0; i < kColumns; ++i) rule[i] = std::string(widths[i], '-');
  std::string out;
  append_row(out, kTitles, widths);
  append_row(out, rule, widths);
  for (const Cells& cells : rows) append_row(out, cells, widths);
  append_row(out, rule, widths);
  append_row(out, total, widths);
  return out;
}

Cells cells_of(const SummaryLine& line, uint64_t all_self, bool room_for_sign) {
  const CallNumbers& numbers = line.numbers;
  const std::string sign = numbers.open_ended() ? "+" : room_for_sign ? " " : "";
  const auto rank = [&](unsigned per_mille) {
    return line.buckets == nullptr ? "-"
                                   : short_duration(percentile(*line.buckets, per_mille, numbers.max_ns));
  };
  return {percent(numbers.self_ns, all_self),
          fmt::format("{:.6f}{}", seconds(numbers.total_ns()), sign),
          mean(numbers),
          fmt::format("{}", numbers.calls),
          fmt::format("{}", numbers.errors),
          rank(500),
          rank(950),
          rank(990),
          numbers.returned == 0 ? "-" : short_duration(numbers.max_ns),
          short_duration(numbers.self_ns) + sign,
          line.name};
}

std::string about_share(const OwnShare& share, ShareShown shown) {
  const std::string_view how = shown == ShareShown::subtracted ? "subtracted" : "contained";
  std::string text;
  if (share.wrapped_ns != 0)
    text += fmt::format("rtrace's own share, at least {} a call by trampoline, is {}\n",
                        short_duration(share.wrapped_ns), how);
  if (share.stops != 0 && share.low_ns != 0)
    text += fmt::format(
        "rtrace's own share of a stop, {} on average that it held the thread and at least {} +- {}, is {}\n",
        short_duration(share.held_ns / share.stops), short_duration(share.low_ns),
        short_duration(share.spread_ns), how);
  return text;
}

// In the order in which each text first came.
std::string notes_of(const SummaryTable& table) {
  std::vector<std::pair<std::string_view, std::string>> lines;
  std::string_view rest(table.notes, std::min<uint64_t>(table.notes_size, SummaryTable::kNotes));
  while (!rest.empty()) {
    const std::string_view note = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), note.size() + 1));
    const size_t tab = note.find('\t');
    if (tab == std::string_view::npos) continue;
    const auto [text, name] = std::pair(note.substr(0, tab), note.substr(tab + 1));
    auto line = std::ranges::find(lines, text, &decltype(lines)::value_type::first);
    if (line == lines.end())
      lines.emplace_back(text, name);
    else
      line->second.append(", ").append(name);
  }
  std::string out;
  for (const auto& [text, names] : lines) out += fmt::format("{}: {}\n", text, names);
  if (table.notes_left > 0) out += fmt::format("and {} more of these\n", table.notes_left);
  return out;
}

}  // namespace

const std::vector<std::string>& sort_keys() {
  static const std::vector<std::string> kKeys = {"time", "self", "calls", "max", "p99", "name"};
  return kKeys;
}

std::vector<SummaryLine> summary_lines(const SummaryTable& table) {
  const uint64_t used = std::min<uint64_t>(table.used, SummaryTable::kRows);
  std::map<std::string, size_t> of_name;
  for (uint64_t i = 0; i < used; ++i) ++of_name[std::string(text_of(table, table.rows[i].name))];
  std::vector<SummaryLine> lines;
  for (uint64_t i = 0; i < used; ++i) {
    const SummaryRow& row = table.rows[i];
    SummaryLine line{std::string(text_of(table, row.name)), row.numbers[row.version % 2], nullptr,
                     row.wanted};
    const std::string at = "@" + std::string(text_of(table, row.object));
    if (of_name[line.name] > 1 && at.size() > 1 && !line.name.ends_with(at)) line.name += at;
    if (row.block > 0 && row.block <= SummaryTable::kBlocks) line.buckets = &table.blocks[row.block - 1];
    lines.push_back(std::move(line));
  }
  if (table.overflowed > 0) {
    SummaryLine others{"(others)", {}, nullptr, 0};
    others.numbers.calls = table.overflowed;
    lines.push_back(others);
  }
  return lines;
}

std::string render_summary(const SummaryTable& table, SortKey sort, ShareShown share, size_t width) {
  auto lines = summary_lines(table);
  sort_lines(lines, sort);
  CallNumbers all{};
  bool open_ended = false;
  size_t unranked = 0;
  for (const SummaryLine& line : lines) {
    all.calls += line.numbers.calls;
    all.errors += line.numbers.errors;
    all.self_ns += line.numbers.self_ns;
    open_ended |= line.numbers.open_ended();
    unranked += line.numbers.returned > 0 && line.buckets == nullptr;
  }
  std::vector<Cells> rows;
  for (const SummaryLine& line : lines) rows.push_back(cells_of(line, all.self_ns, open_ended));
  const std::string room = open_ended ? " " : "";
  const Cells total = {"100.00",
                       fmt::format("{:.6f}{}", seconds(all.self_ns), room),
                       "",
                       fmt::format("{}", all.calls),
                       fmt::format("{}", all.errors),
                       "",
                       "",
                       "",
                       "",
                       short_duration(all.self_ns) + room,
                       "total"};
  std::string out = laid_out(rows, total, width);
  if (unranked > 0)
    out += fmt::format("p50 to p99 are kept of {} functions, and not of {} more\n", SummaryTable::kBlocks,
                       unranked);
  out += about_share(table.share, share);
  return out + notes_of(table);
}

// ltrace's rows name the function alone.
static std::string_view without_caller(std::string_view name) {
  const size_t arrow = name.find("->");
  if (arrow == std::string_view::npos || name.substr(0, arrow).ends_with("operator")) return name;
  return name.substr(arrow + 2);
}

std::string render_ltrace_summary(const SummaryTable& table) {
  auto lines = summary_lines(table);
  std::sort(lines.begin(), lines.end(), [](const SummaryLine& a, const SummaryLine& b) {
    return std::tuple(b.numbers.all_ns, b.numbers.calls, a.name) <
           std::tuple(a.numbers.all_ns, a.numbers.calls, b.name);
  });
  uint64_t calls = 0, total = 0;
  for (const SummaryLine& line : lines) {
    calls += line.numbers.calls;
    total += line.numbers.all_ns;
  }

  std::string out =
      "% time     seconds  usecs/call     calls      function\n"
      "------ ----------- ----------- --------- --------------------\n";
  auto to = std::back_inserter(out);
  for (const auto& [name, numbers, buckets, wanted] : lines) {
    const uint64_t each = numbers.returned == 0 ? 0 : numbers.all_ns / 1000 / numbers.returned;
    const double part = total == 0 ? 0 : 100.0 * seconds(numbers.all_ns) / seconds(total);
    fmt::format_to(to, "{:6.2f} {:11.6f} {:11} {:9} {}\n", part, seconds(numbers.all_ns), each, numbers.calls,
                   without_caller(name));
  }
  out += "------ ----------- ----------- --------- --------------------\n";
  fmt::format_to(to, "100.00 {:11.6f} {:11} {:9} total\n", seconds(total), "", calls);
  return out;
}

}  // namespace rtrace::sink
