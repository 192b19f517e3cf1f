#include "stamper.h"

#include <ctime>

#include <algorithm>

#include "digits.h"

namespace rtrace::sink {

namespace {
constexpr uint64_t kBillion = 1'000'000'000;
}

void Stamper::append(std::string& out, event::Timestamp now) {
  if (relative_ == Relative::first) append_relative(out, now.monotonic);
  switch (style_) {
    case TimeStyle::none:
      return;
    case TimeStyle::clock:
      append_clock(out, now.realtime / kBillion);
      break;
    case TimeStyle::clock_us:
      append_clock(out, now.realtime / kBillion);
      out += '.';
      append_number(out, now.realtime % kBillion / 1000, 6, '0');
      break;
    case TimeStyle::epoch_us:
      append_seconds(out, now.realtime);
      break;
    case TimeStyle::epoch_ns:
      append_number(out, now.realtime / kBillion);
      out += '.';
      append_number(out, now.realtime % kBillion, 9, '0');
      break;
  }
  out += ' ';
}

// A difference of two stamps is a duration, so the monotonic clock serves: a step of the realtime clock would
// show. Threads' records may come in a little out of order; time does not run backwards for that.
void Stamper::append_relative(std::string& out, uint64_t monotonic) {
  uint64_t since = previous_.value_or(monotonic);
  append_seconds(out, monotonic - std::min(since, monotonic), 3);
  out += ' ';
  previous_ = std::max(since, monotonic);
}

// localtime_r takes a lock and looks the time zone up, which costs more than the rest of the line: once a
// second is enough.
void Stamper::append_clock(std::string& out, uint64_t second) {
  if (clock_second_ != second) {
    auto time = static_cast<time_t>(second);
    tm local{};
    if (localtime_r(&time, &local) == nullptr) local = {};
    std::string text;
    append_number(text, static_cast<unsigned>(local.tm_hour), 2, '0');
    text += ':';
    append_number(text, static_cast<unsigned>(local.tm_min), 2, '0');
    text += ':';
    append_number(text, static_cast<unsigned>(local.tm_sec), 2, '0');
    std::copy_n(text.begin(), clock_.size(), clock_.begin());
    clock_second_ = second;
  }
  out.append(clock_.data(), clock_.size());
}

}  // namespace rtrace::sink
