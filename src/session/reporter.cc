#include "reporter.h"

#include <ctime>
#include <utility>

#include "rtrace/base/text.h"
#include "rtrace/sink/summary_sink.h"
#include "rtrace/sink/text_sink.h"

namespace rtrace::session {
namespace {

uint64_t nanoseconds(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

}  // namespace

uint64_t monotonic_now() {
  return nanoseconds(CLOCK_MONOTONIC);
}

event::Timestamp timestamp() {
  return {nanoseconds(CLOCK_REALTIME), nanoseconds(CLOCK_MONOTONIC)};
}

// On attach a reader that stalls must not freeze the process; a launched command waits for its reader as it
// would for a full pipe.
Reporter::Reporter(const Options& options, Shared& shared, int event_fd)
    : options_(options),
      writer_(shared.output, event_fd, options.pids.empty() ? OnFull::block : OnFull::block_a_while) {
  if (options.summary || !options.histograms.empty())
    sinks_.push_back(
        std::make_unique<sink::SummarySink>(shared.summary, options.text.demangle, options.histograms));
  if (options.call_lines) sinks_.push_back(std::make_unique<sink::TextSink>(writer_, options.text));
}

void Reporter::take(const decode::Record& record) {
  say_lost();
  last_ = record.header;
  for (auto& sink : sinks_) sink->take(record);
  if (writer_.losing() && std::holds_alternative<decode::CallEntered>(record.body)) ++lost_calls_;
}

// Where the loss was, and not before there is room: a line about a loss that is lost itself says nothing.
void Reporter::say_lost() {
  if (!writer_.losing() || !writer_.may_resume()) return;
  for (auto& sink : sinks_) sink->finish();  // still unheard: no call is open any more
  writer_.resume();
  const uint64_t count = std::exchange(lost_calls_, 0);
  const decode::Record lost{last_, decode::Lost{count, "nobody was reading the output"}};
  for (auto& sink : sinks_) sink->take(lost);
}

// Where both go to stderr an open call is closed first.
void Reporter::say(const std::string& line) {
  if (options_.output.empty()) finish();
  // Names of processes, objects and symbols are the tracee's choice.
  std::string shown = "rtrace: ";
  append_printable(shown, line, options_.text.render.utf8);
  writer_.notice(shown + "\n");
}

void Reporter::notice(const std::string& line) {
  if (options_.quiet == 0) say(line);
}

void Reporter::finish() {
  say_lost();
  for (auto& sink : sinks_) sink->finish();
}

void Reporter::end() {
  say_lost();
  for (auto& sink : sinks_) sink->end();
  if (writer_.losing())
    say(fmt::format("{} calls lost at the end: nobody was reading the output", lost_calls_));
}

}  // namespace rtrace::session
