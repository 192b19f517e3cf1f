// The text format (man page: OUTPUT). One stream, at most one call open in it.
//
// A call is printed up to its last argument when it is entered, without the end of the line; its return
// completes the line, or, where anything else had to be printed in between, comes as a `<... name resumed>`
// line of its own.
//
// Lines that the man page's list does not show:
//   --- 17 calls lost: output could not keep up ---
#pragma once

#include <cstdint>
#include <memory>

#include "rtrace/sink/sink.h"

namespace rtrace::sink {

enum class TimeStyle : uint8_t { none, clock, clock_us, epoch_us, epoch_ns };

// What says which task a line is of.
enum class PidPrefix : uint8_t {
  from_the_second_task,  // `[pid N] `, once more than one task is or was traced
  always,                // the same on each line (attach to several)
  bare,                  // `N ` on each line
  never,
};

struct TextOptions {
  unsigned align = 50;  // -a: `= ` begins at column align-1 (0-based: the blank before it is column align-2)
  bool relative = false;  // -r: since the line before, in front of the time
  TimeStyle time = TimeStyle::none;
  bool return_address = false;  // -i; of calls only, other lines have none
  unsigned indent = 0;          // -n
  bool duration = false;        // -T
  bool signals = true;          // off: -b
  bool demangle = false;        // -C
  bool exits = true;            // off: -qq
  bool color = false;           // escape sequences around names, strings and errors; columns do without
  PidPrefix pid = PidPrefix::from_the_second_task;
  decode::RenderOptions render;  // max_line bounds what a line shows of a call's arguments and result
};

class TextSink : public Sink {
 public:
  // `output` outlives the sink and gets one write for each record that prints.
  TextSink(Output& output, TextOptions options);
  ~TextSink() override;
  void take(const decode::Record& record) override;
  // A call that is still open is closed as unfinished.
  void finish() override;
  // Calls whose backtraces have not been printed, for they have neither returned nor been given up, are
  // printed once more: `<... f resumed> <unfinished ...>`.
  void end() override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rtrace::sink
