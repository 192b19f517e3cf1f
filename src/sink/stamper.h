// The time at the beginning of a line (-r -t -tt -ttt --time).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "rtrace/event/ids.h"
#include "rtrace/sink/text_sink.h"

namespace rtrace::sink {

class Stamper {
 public:
  enum class Relative : uint8_t { no, first };
  Stamper(Relative relative, TimeStyle style) : relative_(relative), style_(style) {}
  // Each time with a blank behind it; nothing for TimeStyle::none.
  void append(std::string& out, event::Timestamp now);

 private:
  void append_relative(std::string& out, uint64_t monotonic);
  void append_clock(std::string& out, uint64_t second);

  Relative relative_;
  TimeStyle style_;
  std::optional<uint64_t> previous_;      // monotonic
  std::optional<uint64_t> clock_second_;  // of clock_
  std::array<char, 8> clock_{};
};

}  // namespace rtrace::sink
