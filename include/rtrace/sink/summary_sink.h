// Counts and times of calls (-c). Its rows lie in memory given by the owner, so that another process that shares it can print them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>

#include "rtrace/sink/sink.h"

namespace rtrace::sink {

// Plain data: lives in memory shared by two processes.
struct SummaryRow {
  char name[192];         // as printed, cut where longer
  uint64_t calls = 0;     // entered
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
  // `table` is zeroed memory. Names are printed demangled where asked.
  SummarySink(SummaryTable& table, bool demangle);
  void take(const decode::Record& record) override;
  void finish() override {}

 private:
  SummaryTable& table_;
  bool demangle_;
  std::unordered_map<const decode::ProbeLabel*, SummaryRow*> rows_;
};

// The table in ltrace's shape, sorted by time, with its last line `100.00 ... total`. Calls still open count as calls.
std::string render_summary(const SummaryTable& table);

}  // namespace rtrace::sink
