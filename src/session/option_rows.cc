#include "option_rows.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "rtrace/base/log.h"
#include "rtrace/base/text.h"
#include "rtrace/sink/where.h"
#include "rtrace/unwind/unwinder.h"

namespace rtrace::session {
namespace {

uint64_t number(std::string_view option, const std::string& value, uint64_t most) {
  auto parsed = parse_number(value);
  if (!parsed || *parsed > most)
    throw UsageError(fmt::format("{} {}: a number from 0 to {} is expected", option, value, most));
  return *parsed;
}

// An empty word is a variable that was not set, and means none of what it would stand for.
const std::string& something(std::string_view option, const std::string& value) {
  if (value.empty()) throw UsageError(fmt::format("{}: an empty word is no value", option));
  return value;
}

void set_ready_fd(Draft& draft, std::string_view option, const std::string& value) {
  const int fd = static_cast<int>(number(option, value, 1 << 20));
  if (fcntl(fd, F_GETFD) < 0) throw UsageError(fmt::format("{}={}: {}", option, value, std::strerror(errno)));
  draft.options.ready_fd = fd;
}

void add_pids(Draft& draft, std::string_view option, const std::string& value) {
  for (std::string_view word : split(value, ',')) {
    auto pid = parse_number(word);
    if (!pid || *pid == 0 || *pid > 0x7fffffff)
      throw UsageError(fmt::format("{} {}: '{}' is no process id", option, value, word));
    draft.options.pids.push_back(static_cast<pid_t>(*pid));
  }
}

void set_time(Draft& draft, std::string_view option, const std::string& value) {
  static const std::vector<std::string_view> kNames = {"clock", "us", "epoch", "ns"};
  if (std::find(kNames.begin(), kNames.end(), value) == kNames.end())
    throw UsageError(fmt::format("{}={}: one of {} is expected", option, value, fmt::join(kNames, ", ")));
  draft.time_name = value;
}

void set_sort(Draft& draft, std::string_view option, const std::string& value) {
  const auto& keys = sink::sort_keys();
  const auto found = std::find(keys.begin(), keys.end(), value);
  if (found == keys.end()) {
    const auto near = nearest_names(value, keys, 1);
    throw UsageError(fmt::format("{}={}: one of {} is expected{}", option, value, fmt::join(keys, ", "),
                                 near.empty() ? "" : fmt::format("; did you mean {}?", near[0])));
  }
  draft.options.sort = static_cast<sink::SortKey>(found - keys.begin());
}

// C++ names hold commas too, in brackets. What does not close holds no list.
std::vector<std::string> listed_names(const std::string& value) {
  std::vector<std::string> names(1);
  int depth = 0;
  for (char c : value) {
    if (c == '(' || c == '<') ++depth;
    if (c == ')' || c == '>') --depth;
    if (c == ',' && depth == 0 && !names.back().ends_with("operator"))
      names.emplace_back();
    else
      names.back() += c;
  }
  return depth == 0 ? names : std::vector{value};
}

void add_histograms(Draft& draft, std::string_view option, const std::string& value) {
  auto& names = draft.options.histograms;
  for (const std::string& name : listed_names(value)) {
    if (name.empty())
      throw UsageError(fmt::format("{}={}: the name of a function is expected", option, value));
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    if (names.size() == sink::kMaxHistograms)
      throw UsageError(fmt::format("{}={}: at most {} of them", option, value, sink::kMaxHistograms));
    names.push_back(name);
  }
}

void set_slower(Draft& draft, std::string_view option, const std::string& value) {
  const auto duration = parse_duration(value);
  if (!duration)
    throw UsageError(fmt::format("{}={}: a duration is expected: 5ms, 200us, 1.5s, 800ns", option, value));
  draft.options.slower = *duration;
}

// With digits alone it is ltrace's spelling of -w.
void set_where(Draft& draft, std::string_view option, const std::string& value) {
  if (!value.empty() && value.find_first_not_of("0123456789") == std::string::npos) {
    draft.options.frames = static_cast<unsigned>(number(option, value, unwind::kMostFrames));
    return;
  }
  sink::Where::parse(value);
  draft.options.where = value;
}

void set_color(Draft& draft, std::string_view option, const std::string& value) {
  if (value != "auto" && value != "always" && value != "never")
    throw UsageError(fmt::format("{}={}: auto, always or never is expected", option, value));
  draft.color = value == "auto"     ? ColorChoice::automatic
                : value == "always" ? ColorChoice::always
                                    : ColorChoice::never;
}

void set_on_full(Draft& draft, std::string_view option, const std::string& value) {
  if (value != "block" && value != "drop")
    throw UsageError(fmt::format("{}={}: block or drop is expected", option, value));
  draft.options.on_full = value == "drop" ? Options::OnFull::drop : Options::OnFull::block;
}

void set_cpu(Draft& draft, std::string_view option, const std::string& value) {
  if (value != "follow" && value != "any")
    throw UsageError(fmt::format("{}={}: follow or any is expected", option, value));
  draft.options.cpu = value == "any" ? Options::Cpu::any : Options::Cpu::follow;
}

void set_mechanism(Draft& draft, std::string_view option, const std::string& value) {
  using Mechanism = Options::Mechanism;
  if (value != "auto" && value != "breakpoint" && value != "trampoline")
    throw UsageError(fmt::format("{}={}: auto, breakpoint or trampoline is expected", option, value));
  draft.options.mechanism = value == "trampoline"   ? Mechanism::trampoline
                            : value == "breakpoint" ? Mechanism::breakpoint
                                                    : Mechanism::automatic;
}

void set_debug(Draft&, std::string_view, const std::string& value) {
  try {
    log::configure(value);
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
}

#define SET(statement) \
  [](Draft& d, std::string_view o, const std::string& v) { (void)d, (void)o, (void)v, statement; }

constexpr std::string_view kWhat = "What to trace", kProcess = "Processes", kValues = "Arguments",
                           kOutput = "Output", kOther = "Other";

}  // namespace

const std::vector<Row>& option_rows() {
  using Kind = plan::Request::Kind;
  static const std::vector<Row> kRows = {
      {{'e', "calls", "FILTER", kWhat, "library calls made by matching objects [@MAIN]"},
       SET(d.filters.emplace_back(Kind::call, v))},
      {{'l', "library", "PATTERN", kWhat, "calls from anywhere into matching libraries"},
       SET(d.filters.emplace_back(Kind::library, v))},
      {{'x', "entry", "FILTER", kWhat, "entries of functions, static ones too, in any object"},
       SET(d.filters.emplace_back(Kind::entry, v))},
      {{'L', "no-plt", "", kWhat, "no default -e @MAIN (also -g)"}, SET(d.options.default_calls = false)},
      {{'g', "", "", kWhat, ""}, SET(d.options.default_calls = false)},
      {{'S', "syscalls", "", kWhat, "system calls too"}, SET(d.options.syscalls = true)},
      {{0, "slower", "DURATION", kWhat, "only calls that took at least that long: 5ms, 200us"}, set_slower},
      {{0, "where", "EXPR", kWhat, "only calls for which it holds: 'arg2 > 9 && ret < 0'"}, set_where},
      {{'b', "no-signals", "", kWhat, "no '--- SIG... ---' lines"}, SET(d.options.text.signals = false)},
      {{0, "explain", "", kWhat, "where filters matched, what was declined, and why"},
       SET(d.options.explain = true)},
      {{'p', "attach", "PID,...", kProcess, "attach to running processes"}, add_pids},
      {{'f', "follow", "", kProcess, "follow children made by fork, vfork, clone"},
       SET(d.options.follow = true)},
      {{'u', "user", "USER", kProcess, "run the command as that user (name, uid or UID:GID)"},
       SET(d.options.user = something(o, v))},
      {{0, "trust-seccomp", "", kProcess, "inject into processes under a seccomp filter"},
       SET(d.options.trust_seccomp = true)},
      {{0, "repair", "", kProcess, "heal what a dead tracer left in the -p processes"},
       SET(d.options.action = Options::Action::repair)},
      {{'F', "config", "PATHS", kValues, "prototype files or folders, colon-separated"},
       [](Draft& d, std::string_view o, const std::string& v) {
         for (std::string_view path : split(something(o, v), ':'))
           if (!path.empty()) d.options.config.emplace_back(path);
       }},
      {{0, "gen-conf", "OBJECT", kValues, "print prototypes from its debug info, as TOML"},
       SET(d.options.action = Options::Action::gen_conf; d.options.gen_conf = v)},
      {{'A', "array-limit", "N", kValues, "longest array printed (default 4)"},
       SET(d.options.limits.array = number(o, v, 1'000'000))},
      {{'s', "string-limit", "N", kValues, "longest string printed (default 32)"},
       SET(d.options.limits.string = number(o, v, 1'000'000))},
      {{'y', "fds", "", kValues, "file descriptors with the file or socket behind them"},
       SET(d.options.descriptors = true)},
      {{0, "json", "", kOutput, "one JSON object a line instead of text"}, SET(d.options.json = true)},
      {{0, "on-full", "block|drop", kOutput, "output that nobody reads: wait, or count lost lines"},
       set_on_full},
      {{'c', "summary-only", "", kOutput, "a table of counts and times at the end, no lines"},
       SET((d.options.summary = true, d.options.call_lines = false))},
      {{0, "summary", "", kOutput, "the table, and the call lines too"}, SET(d.options.summary = true)},
      {{0, "sort", "KEY", kOutput, "order of the table: time self calls max p99 name"}, set_sort},
      {{0, "hist", "NAME,...", kOutput, "histograms of these functions' durations at the end"},
       add_histograms},
      {{0, "raw-times", "", kOutput, "durations with rtrace's own share, which is shown"},
       SET(d.options.raw_times = true)},
      {{'o', "output", "FILE", kOutput, "write there, not stderr; '-': stdout, '|cmd': a pipe"},
       SET(d.options.output = something(o, v))},
      {{0, "append", "", kOutput, "append to the -o file"}, SET(d.options.append = true)},
      {{'a', "align", "N", kOutput, "column of return values"},
       SET(d.options.text.align = static_cast<unsigned>(number(o, v, 1000)))},
      {{0, "color", "WHEN", kOutput, "auto, always, never: names, strings, errors in color"}, set_color},
      {{'C', "demangle", "", kOutput, "demangled C++ names"}, SET(d.options.text.demangle = true)},
      {{'i', "return-address", "", kOutput, "return address of each call"},
       SET(d.options.text.return_address = true)},
      {{'n', "indent", "N", kOutput, "N blanks for each level of call nesting"},
       SET(d.options.text.indent = static_cast<unsigned>(number(o, v, 100)))},
      {{'w', "frames", "N", kOutput, "backtrace of N frames after each call"},
       SET(d.options.frames = static_cast<unsigned>(number(o, v, unwind::kMostFrames)))},
      {{0, "max-line", "N", kOutput, "longest rendering of one call (default 4096)"},
       SET(d.options.text.render.max_line = number(o, v, 100'000'000))},
      {{'r', "relative", "", kOutput, "time since the line before"}, SET(d.options.text.relative = true)},
      {{0, "struct-names", "", kOutput, "structs with the names of their members"},
       SET(d.options.text.render.struct_names = true)},
      {{'t', "", "", kOutput, "clock time; -tt microseconds, -ttt since the epoch"}, SET(++d.clock)},
      {{0, "time", "STYLE", kOutput, "clock, us, epoch or ns"}, set_time},
      {{'T', "duration", "", kOutput, "duration of each call"}, SET(d.options.text.duration = true)},
      {{0, "utf8", "", kOutput, "UTF-8 as it is, where the locale has it"}, SET(d.utf8 = true)},
      {{'q', "quiet", "", kOutput, "fewer notices; -qq no exit lines either"}, SET(++d.options.quiet)},
      {{0, "ltrace-compat", "", kOther, "behave as ltrace, as when called by that name"},
       SET(d.options.ltrace_compat = true)},
      {{0, "mechanism", "MECHANISM", kOther, "auto, breakpoint, trampoline: how calls are met"},
       set_mechanism},
      {{0, "cpu", "follow|any", kOther, "stay by the processor of the thread that hits"}, set_cpu},
      {{0, "ready-fd", "N", kOther, "write one byte there when all is armed"}, set_ready_fd},
      {{'D', "debug", "TOPIC", kOther, "rtrace's own log: all, or TOPIC[:LEVEL],..."}, set_debug},
      {{'h', "help", "", kOther, "this text"}, SET(d.options.action = Options::Action::help)},
      {{'V', "version", "", kOther, "the version"}, SET(d.options.action = Options::Action::version)},
  };
  return kRows;
}
#undef SET

}  // namespace rtrace::session
