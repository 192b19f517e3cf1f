// Counts and times of calls (-c, --summary, --hist). They lie in memory given by the owner, so that another
// process that shares it can print them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "rtrace/agent/buckets.h"
#include "rtrace/sink/sink.h"

namespace rtrace::sink {

// The structs from here to SummaryTable are plain data, all zeros to begin with: they live in memory shared
// by two processes.
struct CallNumbers {
  uint64_t calls;  // entered
  uint64_t returned;
  uint64_t unreturned;     // gone without a return, open at the end, or with one that could not be seen
  uint64_t instants;       // that have no duration
  uint64_t errors;         // of those that returned
  uint64_t all_ns;         // durations of those that returned
  uint64_t outermost_ns;   // the same, without calls of a function within itself
  uint64_t unreturned_ns;  // of outermost ones, until they were left
  uint64_t self_ns;        // less that of traced calls inside, of all
  uint64_t max_ns;

  uint64_t total_ns() const { return outermost_ns + unreturned_ns; }
  // More than total_ns() and self_ns tell: some calls were never seen to end.
  bool open_ended() const { return unreturned > 0 || calls > returned + unreturned + instants; }
};

// Of SummaryTable::names.
struct SummaryName {
  uint64_t at, size;
};

struct SummaryRow {
  SummaryName name;    // as printed
  SummaryName object;  // that implements it, where that is known
  uint64_t wanted;     // bit i: it is what the i-th --hist names
  uint64_t block;      // which Buckets hold its durations, counted from 1; 0: none, there were no more
  // The copy that counts is numbers[version % 2]; the next one is made in the other.
  uint64_t version;
  CallNumbers numbers[2];
};

// What of a stop is rtrace's, as far as it is known.
struct OwnShare {
  uint64_t low_ns;      // around the time that rtrace holds the thread: delivery and wake-ups, a low estimate
  uint64_t spread_ns;   // of that: half the distance from the 10th to the 90th percentile
  uint64_t stops;       // seen so far
  uint64_t held_ns;     // that threads were held at them
  uint64_t wrapped_ns;  // of a call by trampoline, a low estimate; 0: none was made
};

struct SummaryTable {
  static constexpr size_t kRows = 65536, kBlocks = 4096, kNotes = 65536, kNames = size_t{16} << 20;
  uint64_t used;
  uint64_t overflowed;  // calls that found no row free
  uint64_t blocks_used;
  OwnShare share;
  uint64_t notes_size, notes_left;  // that found no room
  char notes[kNotes];               // printed below the table: each a text, a tab, a name and a newline
  SummaryRow rows[kRows];
  uint64_t names_size;
  char names[kNames];  // where it is full they are cut, and end in `...`
  agent::Buckets blocks[kBlocks];
};

// Whatever the table holds: its writer may have been killed.
std::string_view text_of(const SummaryTable& table, SummaryName name);

// What is printed below the table of a name; of several names with the same text in one line. Its only
// writer's. Neither has control characters.
void add_note(SummaryTable& table, std::string_view text, std::string_view name);

inline constexpr size_t kMaxHistograms = 64;

class SummarySink : public Sink {
 public:
  // `table` is zeroed memory, and this is its only writer; who reads it when the writer has died sees each
  // row as it was before or after a call. Names are printed demangled where asked. `histograms`: the names of
  // --hist, at most kMaxHistograms.
  SummarySink(SummaryTable& table, bool demangle, std::vector<std::string> histograms = {});
  void take(const decode::Record& record) override;
  void finish() override {}

 private:
  SummaryRow* row_of(const decode::ProbeLabel& label);
  SummaryRow* new_row(const decode::ProbeLabel& label);
  uint64_t wanted(const decode::ProbeLabel& label, const std::string& printed) const;
  void entered(const decode::CallEntered& call);
  void returned(const decode::CallReturned& call);
  void abandoned(const decode::CallAbandoned& call);
  void counted(const decode::CallsCounted& calls);
  void take_block(SummaryRow& row);
  void count_duration(SummaryRow& row, uint64_t duration);

  SummaryTable& table_;
  bool demangle_;
  std::vector<std::string> histograms_;
  std::unordered_map<const decode::ProbeLabel*, SummaryRow*> rows_;  // nullptr where none was free
  // By name, objects and kind: an object that is loaded again brings new labels, and its functions keep their
  // rows.
  std::map<std::tuple<std::string, std::string, std::string, decode::ProbeLabel::Kind>, SummaryRow*> by_name_;
};

// Whether a label is what --hist=NAME means: its name, mangled or not, alone or as it is printed, or
// name@object.
bool is_named(const decode::ProbeLabel& label, const std::string& name);

}  // namespace rtrace::sink
