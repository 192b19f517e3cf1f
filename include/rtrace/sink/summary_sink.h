// Counts and times of calls (-c). Its rows lie in memory given by the owner, so that another process that
// shares it can print them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>

#include "rtrace/sink/sink.h"

namespace rtrace::sink {

// Plain data: lives in memory shared by two processes.
struct SummaryRow {
  char name[192];      // as printed, cut where longer
  uint64_t calls = 0;  // entered
  uint64_t returned = 0;
  uint64_t total_ns = 0;  // of those that returned
};

struct SummaryTable {
  static constexpr size_t kRows = 65536;
  uint64_t used = 0;
  uint64_t overflowed = 0;  // calls that found no row free
  SummaryRow rows[kRows];
};

class SummarySink : public Sink {
 public:
  // `table` is zeroed memory, and this is its only writer; who reads it at the same time sees rows whole but
  // for their latest calls. Names are printed demangled where asked.
  SummarySink(SummaryTable& table, bool demangle);
  void take(const decode::Record& record) override;
  void finish() override {}

 private:
  SummaryRow* row_of(const decode::ProbeLabel& label);
  SummaryRow* new_row(const decode::ProbeLabel& label);

  SummaryTable& table_;
  bool demangle_;
  std::unordered_map<const decode::ProbeLabel*, SummaryRow*> rows_;  // nullptr where none was free
  // By name, object and kind: an object that is loaded again brings new labels, and its functions keep their
  // rows.
  std::map<std::tuple<std::string, std::string, decode::ProbeLabel::Kind>, SummaryRow*> by_name_;
};

// The table in ltrace's shape, sorted by time, with its last line `100.00 ... total`. Calls that never
// returned count as calls, but not in usecs/call. Calls that found no row are one row, `(others)`.
std::string render_summary(const SummaryTable& table);

}  // namespace rtrace::sink
