// Lets only some calls through (--slower, --where). A call is held until it has ended, and then goes on
// whole: inner calls come before those that they were made in.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rtrace/sink/sink.h"
#include "rtrace/sink/where.h"

namespace rtrace::sink {

// "--slower and --where", of those that are given; empty: neither.
std::string selecting_options(bool slower, bool where);

class SelectSink : public Sink {
 public:
  struct Options {
    uint64_t slower = 0;  // ns; a call that never returned counts with the time until that was known
    std::optional<Where> where;
    // Strings are cut to this when they have been looked into; they come longer, for `where`.
    std::optional<size_t> shown_string;
    bool syscalls = false;  // -S: what their probes know is known when they have been met, at the end
  };
  using Notice = std::function<void(const std::string&)>;

  // `notice` is told, once each, what can never be true, and at the end, that nothing was let through, and
  // how many calls were left out since nothing could be known of them.
  SelectSink(Options options, std::vector<std::unique_ptr<Sink>> next, Notice notice);
  ~SelectSink() override;
  void take(const decode::Record& record) override;
  void finish() override;
  // Calls that are still open are let through as such, or not.
  void end() override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rtrace::sink
