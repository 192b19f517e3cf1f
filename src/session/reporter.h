// Where records and rtrace's own words leave the engine.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "rtrace/session/options.h"
#include "rtrace/session/output_ring.h"
#include "rtrace/session/shared_state.h"
#include "rtrace/sink/sink.h"

namespace rtrace::session {

class Reporter {
 public:
  Reporter(const Options& options, Shared& shared, int event_fd, pid_t reader);
  ~Reporter();
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;

  void take(const decode::Record& record);
  template <typename Body>
  void take(event::TraceeId who, event::Timestamp time, Body body) {
    take(decode::Record{{who, time}, std::move(body)});
  }

  // One line on the user's stderr, "rtrace: " before it.
  void say(const std::string& line);
  // The same, unless -q.
  void notice(const std::string& line);
  // The same, once for all that it is about.
  void notice_once(const std::string& about, const std::string& line);

  // Said of that name below the summary, where there is one.
  void note(const std::string& text, const std::string& name);

  // All is armed, and all that was said about it has been printed: --ready-fd.
  void ready() { writer_.ready(); }

  // Whether it was told that calls were not seen.
  bool told_of_loss() const { return told_of_loss_; }
  // Nobody reads the output any more: the trace should end.
  bool reader_gone() const { return writer_.reader_gone(); }
  bool should_ease() { return writer_.should_ease(); }
  // Something else is about to be printed where the trace goes.
  void finish();
  // Nothing is traced any more: whatever the reader's pace, it gets what is left. A loss that no line could
  // tell of is left to the front end to tell.
  void end();

 private:
  class Printer;
  void say_lost();

  const Options& options_;
  Shared& shared_;
  RingWriter writer_;
  std::vector<std::unique_ptr<sink::Sink>> sinks_;
  uint64_t lost_calls_ = 0;  // that no line could tell of
  bool told_of_loss_ = false;
  std::set<std::string> noticed_;  // notice_once()
  decode::Header last_;            // of the record before
};

// Both clocks, now.
event::Timestamp timestamp();
uint64_t monotonic_now();

}  // namespace rtrace::session
