// The text format (man page: OUTPUT). One stream, at most one call open in it.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "rtrace/sink/sink.h"

namespace rtrace::sink {

enum class TimeStyle : uint8_t { none, relative, clock, clock_us, epoch_us, epoch_ns };

struct TextOptions {
  unsigned align = 50;            // -a: `= ` begins at column align-1 (0-based: the blank before it is column align-2)
  TimeStyle time = TimeStyle::none;
  bool return_address = false;    // -i
  unsigned indent = 0;            // -n
  bool duration = false;          // -T
  bool signals = true;            // off: -b
  bool demangle = false;          // -C
  bool exits = true;              // off: -qq
  // When `[pid N]` is printed: from the second task on, or always (attach to several; then the first line already has it).
  bool always_pid = false;
  decode::RenderOptions render;
};

class TextSink : public Sink {
 public:
  TextSink(Output& output, TextOptions options);
  void take(const decode::Record& record) override;
  void finish() override;

 private:
  // Designed by the implementation.
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace rtrace::sink
