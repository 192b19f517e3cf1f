// Records to bytes. A sink never sees a tracee.
#pragma once

#include <string>
#include <string_view>

#include "rtrace/decode/record.h"

namespace rtrace::sink {

// Where a sink's bytes go. The engine's is a ring shared with the front end; a test's is a string.
class Output {
 public:
  virtual ~Output() = default;
  // Whole, in order. Several calls may make one line.
  virtual void write(std::string_view bytes) = 0;
};

class StringOutput : public Output {
 public:
  void write(std::string_view bytes) override { text.append(bytes); }
  std::string text;
};

class Sink {
 public:
  virtual ~Sink() = default;
  virtual void take(const decode::Record& record) = 0;
  // Closes an open line, prints what is due: others want to print, or it is the end.
  virtual void finish() = 0;
  // The end of the trace.
  virtual void end() { finish(); }
};

}  // namespace rtrace::sink
