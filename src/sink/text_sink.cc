#include "rtrace/sink/text_sink.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "color.h"
#include "digits.h"
#include "names.h"
#include "open_lines.h"
#include "rtrace/base/text.h"
#include "shares.h"
#include "stamper.h"

namespace rtrace::sink {
namespace {

// However long the arguments were, a number or an address as the result is still shown.
constexpr size_t kLeastForResult = 64;
// The part of a line, one of so many, that is kept for the arguments that a return tells.
constexpr size_t kShareAtReturn = 4;

constexpr std::string_view kDots = "...";

}  // namespace

struct TextSink::Impl {
  using Key = OpenLines::Key;
  using Begun = OpenLines::Begun;
  struct Open : Begun {
    size_t column = 0;
  };

  Impl(Output& where, TextOptions what)
      : output(where),
        options(what),
        stamper(what.relative ? Stamper::Relative::first : Stamper::Relative::no, what.time) {}

  void operator()(const decode::CallEntered& call);
  void operator()(const decode::CallReturned& call);
  void operator()(const decode::CallAbandoned& call);
  void operator()(const decode::CallsCounted&) {}
  void operator()(const decode::SignalDelivered& signal);
  void operator()(const decode::Executed&);
  void operator()(const decode::ThreadStarted&) { several_tasks = true; }
  void operator()(const decode::Forked& fork);
  void operator()(const decode::Exited& exit);
  void operator()(const decode::Killed& death);
  void operator()(const decode::Loaded&) {}
  void operator()(const decode::Unloaded&) {}
  void operator()(const decode::ProbesArmed&) {}
  void operator()(const decode::Started&) {}
  void operator()(const decode::Lost& loss);

  void note_task(event::TraceeId who);
  void flush();
  bool is_needed(const Begun& call) const { return options.return_address || call.more_at_return; }
  void close_open();
  void append_task();
  void begin_line();
  void begin_call_line(VirtAddr return_address, unsigned depth);
  Begun begin_resumed_line(Key call, const decode::ProbeLabel& label, unsigned depth);
  void append_arguments(std::span<const decode::Argument> arguments, Begun& begun);
  void shorten(size_t start, size_t room);
  void append_result(const decode::CallReturned& call, size_t room);
  void append_pad();
  const std::string& text_of(const decode::ProbeLabel& label);
  void append_frames(std::span<const decode::StackFrame> frames);
  void append_frames_of(Key call);
  Key key_of(event::CallId call) const { return {call, header->who.pid}; }
  void end();

  Output& output;
  const TextOptions options;
  Stamper stamper;
  struct Part {
    size_t from = 0, size = 0;
  };
  std::vector<Part> parts;   // of `out`: the arguments of the line being built
  std::string out;           // what this record prints
  size_t line_start = 0;     // in `out`, of the line being built
  size_t column_before = 0;  // columns of that line that earlier records have printed
  const decode::Header* header = nullptr;
  std::optional<event::TraceeId> first_task;
  bool several_tasks = false;
  std::optional<Open> open;
  OpenLines lines;
  std::unordered_map<const decode::ProbeLabel*, std::string> labels;
};

void TextSink::Impl::note_task(event::TraceeId who) {
  if (several_tasks) return;
  if (!first_task) first_task = who;
  several_tasks = *first_task != who;
}

void TextSink::Impl::flush() {
  if (!out.empty()) output.write(out);
  out.clear();
  line_start = column_before = 0;
}

void TextSink::Impl::close_open() {
  if (!open) return;
  out += " <unfinished ...>\n";
  if (is_needed(*open)) lines.suspend(*open);
  open.reset();
}

void TextSink::Impl::operator()(const decode::Forked& fork) {
  several_tasks |= fork.followed;
  if (fork.followed && !fork.shares_memory)
    lines.fork(header->who, fork.child, open && is_needed(*open) ? &*open : nullptr);
}

void TextSink::Impl::append_task() {
  const auto tid = static_cast<uint64_t>(header->who.tid);
  if (options.pid == PidPrefix::bare) {
    append_number(out, tid);
    out += ' ';
  } else if (options.pid == PidPrefix::always ||
             (options.pid == PidPrefix::from_the_second_task && several_tasks)) {
    out += "[pid ";
    append_number(out, tid);
    out += "] ";
  }
}

void TextSink::Impl::begin_line() {
  close_open();
  line_start = out.size();
  column_before = 0;
  append_task();
  stamper.append(out, header->time);
}

void TextSink::Impl::begin_call_line(VirtAddr return_address, unsigned depth) {
  begin_line();
  if (options.return_address) fmt::format_to(std::back_inserter(out), "[{}] ", return_address);
  // Bounded, as all of a line is: recursion may be a hundred thousand calls deep.
  constexpr size_t kMostBlanks = 1024;
  out.append(std::min(size_t{options.indent} * depth, kMostBlanks), ' ');
}

TextSink::Impl::Begun TextSink::Impl::begin_resumed_line(Key call, const decode::ProbeLabel& label,
                                                         unsigned depth) {
  close_open();
  Begun begun;
  if (const auto known = lines.take(call)) begun = *known;
  begin_call_line(begun.return_address, depth);
  out += "<... ";
  out += text_of(label);
  out += " resumed> ";
  return begun;
}

// `rendered` is what this call's line has had so far, and is brought up to date. Where not all have room, the
// longest are cut: whatever stands before it, an argument is seen.
void TextSink::Impl::append_arguments(std::span<const decode::Argument> arguments, Begun& begun) {
  const size_t start = out.size();
  bool separate = open && open->rendered > 0;
  parts.clear();
  for (const decode::Argument& argument : arguments) {
    if (argument.value.kind == decode::Value::Kind::hidden) continue;
    if (separate) out += ", ";
    separate = true;
    const size_t from = out.size();
    decode::append_text(out, argument.value, options.render);
    parts.push_back({from, out.size() - from});
  }
  // What is known at the return only has its part of the line.
  size_t most = options.render.max_line;
  if (begun.more_at_return) most -= most / kShareAtReturn;
  const size_t room = most - std::min(most, begun.rendered);
  if (out.size() - start > room) shorten(start, room);
  begun.rendered += out.size() - start;
  if (options.color) color_strings(out, start);
}

// What stands from `start` on, of which `parts` tells the arguments, to `room` bytes and a few for `...`.
void TextSink::Impl::shorten(size_t start, size_t room) {
  std::vector<size_t> lengths;
  size_t between = out.size() - start;
  for (const Part& part : parts) lengths.push_back(part.size), between -= part.size;
  // A value no longer than the dots gains nothing by them.
  const size_t share = std::max(fair_share(lengths, room - std::min(room, between)), kDots.size());
  const std::string whole = out.substr(start);
  out.resize(start);
  size_t copied = 0;
  for (const Part& part : parts) {
    const size_t from = part.from - start;
    out.append(whole, copied, from - copied);
    const size_t begin = out.size();
    out.append(whole, from, part.size);
    if (part.size > share) decode::cut_text(out, begin, begin + share);
    copied = from + part.size;
  }
}

// Whether or not errno is shown with it: the color says what the prototype knows of failures.
void TextSink::Impl::append_result(const decode::CallReturned& call, size_t room) {
  const bool failed = call.error || call.result.kind == decode::Value::Kind::error_result;
  const size_t start = out.size();
  decode::RenderOptions render = options.render;
  render.max_line = std::max(render.max_line, kLeastForResult);
  decode::append_text(out, call.result, render);
  const size_t end = start + std::max(room, kLeastForResult);
  if (out.size() > end) decode::cut_text(out, start, end);
  if (!options.color) return;
  if (!failed) return color_strings(out, start);
  out.insert(start, kErrorColor);
  out += kPlain;
}

void TextSink::Impl::append_pad() {
  out += ") ";
  size_t column = column_before + columns(std::string_view(out).substr(line_start));
  if (column + 1 < options.align) out.append(options.align - 1 - column, ' ');
  out += "= ";
}

const std::string& TextSink::Impl::text_of(const decode::ProbeLabel& label) {
  std::string& text = labels[&label];
  if (!text.empty()) return text;
  text = printable_label(label, options.demangle, options.render.utf8);
  if (options.color) text = fmt::format("{}{}{}", kNameColor, text, kPlain);
  return text;
}

void TextSink::Impl::append_frames(std::span<const decode::StackFrame> frames) {
  if (frames.empty()) return;
  for (const decode::StackFrame& frame : frames) {
    out += " > ";
    append_printable(out, frame.object.empty() ? "?" : frame.object, options.render.utf8);
    if (!frame.object.empty()) {
      const auto demangled = options.demangle ? demangle(frame.symbol) : std::nullopt;
      out += '(';
      append_printable(out, demangled.value_or(frame.symbol), options.render.utf8);
      fmt::format_to(std::back_inserter(out), "+{:#x})", frame.offset);
    }
    if (frame.address) fmt::format_to(std::back_inserter(out), " [{}]", frame.address);
    out += '\n';
    if (frame.source.empty()) continue;
    out += '\t';
    append_printable(out, frame.source, options.render.utf8);
    out += '\n';
  }
  out += '\n';
}

// When the call's last line has been printed.
void TextSink::Impl::append_frames_of(Key call) {
  if (const auto known = lines.take_backtrace(call)) append_frames(known->frames);
}

void TextSink::Impl::end() {
  // The last line that stands open needs no second one.
  const std::optional<Key> last = open ? std::optional(open->call) : std::nullopt;
  close_open();
  if (last) append_frames_of(*last);
  for (const auto& [call, backtrace] : lines.take_backtraces()) {
    header = &backtrace.header;
    begin_resumed_line(call, *backtrace.label, backtrace.depth);
    out += "<unfinished ...>\n";
    append_frames(backtrace.frames);
  }
}

void TextSink::Impl::operator()(const decode::CallEntered& call) {
  begin_call_line(call.return_address, call.depth);
  out += text_of(*call.label);
  out += '(';
  Open begun{{key_of(call.call), header->who.tid, call.return_address, 0, call.more_at_return}, 0};
  append_arguments(call.arguments, begun);
  if (call.label->instant) {
    out += ")\n";
    append_frames(call.frames);
    return;
  }
  if (call.unseen_return) {
    append_pad();
    out += "?\n";
    append_frames(call.frames);
    return;
  }
  if (!call.frames.empty()) lines.keep(key_of(call.call), {call.label, call.depth, *header, call.frames});
  begun.column = columns(std::string_view(out).substr(line_start));
  open = begun;
}

void TextSink::Impl::operator()(const decode::CallReturned& call) {
  Begun begun;
  if (open && open->call == key_of(call.call)) {
    column_before = open->column;
    begun = *open;
  } else {
    begun = begin_resumed_line(key_of(call.call), *call.label, call.depth);
  }
  begun.more_at_return = false;
  append_arguments(call.arguments, begun);
  open.reset();
  append_pad();
  size_t room = options.render.max_line - std::min(begun.rendered, options.render.max_line);
  append_result(call, room);
  if (options.duration) {
    out += " <";
    append_seconds(out, call.duration);
    out += '>';
  }
  out += '\n';
  append_frames_of(key_of(call.call));
}

void TextSink::Impl::operator()(const decode::CallAbandoned& call) {
  if (call.still_open) return;  // finish() closes what stands open; more is not known
  if (open && open->call == key_of(call.call)) {
    out += " <no return ...>\n";
    open.reset();
    append_frames_of(key_of(call.call));
    return;
  }
  begin_resumed_line(key_of(call.call), *call.label, call.depth);
  out += "<no return ...>\n";
  append_frames_of(key_of(call.call));
}

void TextSink::Impl::operator()(const decode::SignalDelivered& signal) {
  if (!options.signals) return;
  begin_line();
  fmt::format_to(std::back_inserter(out), "--- {} ({}) ---\n", signal_name(signal.number),
                 signal_description(signal.number));
}

void TextSink::Impl::operator()(const decode::Executed&) {
  begin_line();
  out += "--- Called exec() ---\n";
}

void TextSink::Impl::operator()(const decode::Exited& exit) {
  if (!options.exits) return;
  begin_line();
  fmt::format_to(std::back_inserter(out), "+++ exited (status {}) +++\n", exit.status);
}

void TextSink::Impl::operator()(const decode::Killed& death) {
  if (!options.exits) return;
  begin_line();
  fmt::format_to(std::back_inserter(out), "+++ killed by {} +++\n", signal_name(death.signal));
}

void TextSink::Impl::operator()(const decode::Lost& loss) {
  begin_line();
  fmt::format_to(std::back_inserter(out), "--- {} call{} lost: ", loss.count, loss.count == 1 ? "" : "s");
  append_printable(out, loss.what, options.render.utf8);
  out += " ---\n";
}

TextSink::TextSink(Output& output, TextOptions options) : impl_(std::make_unique<Impl>(output, options)) {}
TextSink::~TextSink() = default;

void TextSink::take(const decode::Record& record) {
  impl_->header = &record.header;
  impl_->note_task(record.header.who);
  std::visit(*impl_, record.body);
  impl_->flush();
}

void TextSink::end() {
  impl_->end();
  impl_->flush();
}

void TextSink::finish() {
  impl_->close_open();
  impl_->flush();
}

}  // namespace rtrace::sink
