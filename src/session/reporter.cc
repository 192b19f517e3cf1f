#include "reporter.h"

#include <ctime>
#include <utility>

#include "rtrace/base/text.h"
#include "rtrace/sink/json_sink.h"
#include "rtrace/sink/select_sink.h"
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
static OnFull policy_of(const Options& options) {
  if (options.on_full == Options::OnFull::drop) return OnFull::drop;
  return options.pids.empty() ? OnFull::block : OnFull::block_a_while;
}

static sink::JsonOptions json_options(const Options& options) {
  sink::JsonOptions json;
  json.version = RTRACE_VERSION;
  json.words = options.words;
  json.command = options.command;
  json.calls = options.call_lines;
  json.signals = options.text.signals;
  json.exits = options.text.exits;
  json.demangle = options.text.demangle;
  json.render = options.text.render;
  return json;
}

// The sink that writes lines, and a count of the calls whose lines found no room. In text that is the line
// that a call begins; JSON has one, when it has ended. A line about a loss stands for as many as it counts,
// and behind it stand the ends of processes that were lost.
class Reporter::Printer : public sink::Sink {
 public:
  Printer(std::unique_ptr<sink::Sink> lines, Reporter& reporter)
      : lines_(std::move(lines)), reporter_(reporter) {}

  void take(const decode::Record& record) override {
    lines_->take(record);
    const bool dropped = reporter_.writer_.take_dropped() > 0;
    if (dropped) reporter_.lost_calls_ += calls_of(record);
    if (dropped && is_end(record) && ends_.size() < kMostEnds) ends_.push_back(record);
    if (!dropped && std::holds_alternative<decode::Lost>(record.body))
      for (const auto& end : std::exchange(ends_, {})) take(end);
  }
  void finish() override {
    lines_->finish();
    reporter_.writer_.take_dropped();
  }
  void end() override {
    lines_->end();
    const uint64_t dropped = reporter_.writer_.take_dropped();
    if (reporter_.options_.json) reporter_.lost_calls_ += dropped;  // those that were open
  }

 private:
  static constexpr size_t kMostEnds = 65536;
  static bool is_end(const decode::Record& record) {
    return std::holds_alternative<decode::Exited>(record.body) ||
           std::holds_alternative<decode::Killed>(record.body);
  }
  uint64_t calls_of(const decode::Record& record) const {
    if (const auto* loss = std::get_if<decode::Lost>(&record.body)) return loss->count;
    const bool ended = std::holds_alternative<decode::CallReturned>(record.body) ||
                       std::holds_alternative<decode::CallAbandoned>(record.body);
    const bool begun = std::holds_alternative<decode::CallEntered>(record.body);
    return begun || (reporter_.options_.json && ended) ? 1 : 0;
  }

  std::unique_ptr<sink::Sink> lines_;
  Reporter& reporter_;
  // Ends of processes that found no room: who reads waits for them.
  std::vector<decode::Record> ends_;
};

Reporter::Reporter(const Options& options, Shared& shared, int event_fd, pid_t reader)
    : options_(options), shared_(shared), writer_(shared.output, event_fd, policy_of(options), reader) {
  if (options.summary || !options.histograms.empty())
    sinks_.push_back(
        std::make_unique<sink::SummarySink>(shared.summary, options.text.demangle, options.histograms));
  if (options.json)
    sinks_.push_back(
        std::make_unique<Printer>(std::make_unique<sink::JsonSink>(writer_, json_options(options)), *this));
  else if (options.call_lines)
    sinks_.push_back(
        std::make_unique<Printer>(std::make_unique<sink::TextSink>(writer_, options.text), *this));
  if (options.slower == 0 && options.where.empty()) return;
  sink::SelectSink::Options select{options.slower, std::nullopt, options.shown_string, options.syscalls};
  if (!options.where.empty()) select.where = sink::Where::parse(options.where);
  auto selected = std::make_unique<sink::SelectSink>(std::move(select), std::exchange(sinks_, {}),
                                                     [this](const std::string& line) { say(line); });
  sinks_.push_back(std::move(selected));
}

Reporter::~Reporter() = default;

void Reporter::take(const decode::Record& record) {
  told_of_loss_ |= std::holds_alternative<decode::Lost>(record.body);
  say_lost();
  last_ = record.header;
  for (auto& sink : sinks_) sink->take(record);
}

// Where the loss was, and not before there is room: a line about a loss that is lost itself says nothing.
void Reporter::say_lost() {
  if ((!writer_.losing() && lost_calls_ == 0) || !writer_.may_resume()) return;
  for (auto& sink : sinks_) sink->finish();  // still unheard: no line is open any more
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

void Reporter::notice_once(const std::string& about, const std::string& line) {
  if (noticed_.insert(about).second) notice(line);
}

void Reporter::note(const std::string& text, const std::string& name) {
  std::string shown_text, shown_name;
  append_printable(shown_text, text, options_.text.render.utf8);
  append_printable(shown_name, name, options_.text.render.utf8);
  sink::add_note(shared_.summary, shown_text, shown_name);
}

void Reporter::finish() {
  say_lost();
  for (auto& sink : sinks_) sink->finish();
}

void Reporter::end() {
  writer_.wait_to_resume();
  say_lost();
  for (auto& sink : sinks_) sink->end();
  say_lost();
  shared_.output.lost_calls = lost_calls_;
}

}  // namespace rtrace::session
