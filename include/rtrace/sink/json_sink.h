// One JSON object a line (--json). The format is schema/rtrace-trace.schema.json.
//
// A call is one line, written when it has returned, when it is known that it never will, or at the end of the
// trace. What was loaded and armed before anything else happened waits for the first line, which lists it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "rtrace/sink/sink.h"

namespace rtrace::sink {

struct JsonOptions {
  std::string version;               // of rtrace
  std::vector<std::string> words;    // the options of the command line
  std::vector<std::string> command;  // empty where there is none
  bool calls = true;                 // off: -c
  bool signals = true;               // off: -b
  bool exits = true;                 // off: -qq
  bool demangle = false;             // -C
  decode::RenderOptions render;      // of `text`
};

class JsonSink : public Sink {
 public:
  // `output` outlives the sink and gets one write for each line.
  JsonSink(Output& output, JsonOptions options);
  ~JsonSink() override;
  void take(const decode::Record& record) override;
  void finish() override {}
  // Calls that are still open are written, without a duration.
  void end() override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rtrace::sink
