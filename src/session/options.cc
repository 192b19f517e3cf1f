#include "rtrace/session/options.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "rtrace/base/log.h"
#include "rtrace/base/text.h"
#include "rtrace/sink/where.h"
#include "rtrace/unwind/unwinder.h"
#include "terminal.h"

namespace rtrace::session {
namespace {

// What the words say before they are put together: filters can only be parsed when all of them are known.
struct Draft {
  Options options;
  std::vector<std::pair<plan::Request::Kind, std::string>> filters;
  unsigned clock = 0;  // how many -t
  bool relative = false;
  std::string time_name;
  ColorChoice color = ColorChoice::automatic;
  bool utf8 = false;
};

using Apply = void (*)(Draft&, std::string_view option, const std::string& value);

struct Row {
  OptionInfo info;
  Apply apply;
};

uint64_t number(std::string_view option, const std::string& value, uint64_t most) {
  auto parsed = parse_number(value);
  if (!parsed || *parsed > most)
    throw UsageError(fmt::format("{} {}: a number from 0 to {} is expected", option, value, most));
  return *parsed;
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

void add_histogram(Draft& draft, std::string_view option, const std::string& value) {
  auto& names = draft.options.histograms;
  if (value.empty()) throw UsageError(fmt::format("{}=: the name of a function is expected", option));
  if (std::find(names.begin(), names.end(), value) != names.end()) return;
  if (names.size() == sink::kMaxHistograms)
    throw UsageError(fmt::format("{}={}: at most {} of them", option, value, sink::kMaxHistograms));
  names.push_back(value);
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

void set_debug(Draft&, std::string_view, const std::string& value) {
  try {
    log::configure(value);
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
}

#define SET(statement) \
  [](Draft& d, std::string_view o, const std::string& v) { (void)d, (void)o, (void)v, statement; }

constexpr std::string_view kWhat = "What to trace", kProcess = "Processes", kArguments = "Arguments",
                           kOutput = "Output", kOther = "Other";

const std::vector<Row>& rows() {
  using Kind = plan::Request::Kind;
  static const std::vector<Row> kRows = {
      {{'e', "calls", "FILTER", kWhat, "library calls made by matching objects (default: @MAIN)"},
       SET(d.filters.emplace_back(Kind::call, v))},
      {{'l', "library", "PATTERN", kWhat, "calls from anywhere into matching libraries"},
       SET(d.filters.emplace_back(Kind::library, v))},
      {{'x', "entry", "FILTER", kWhat,
        "entries of functions, static ones too, in any loaded or future object"},
       SET(d.filters.emplace_back(Kind::entry, v))},
      {{'L', "no-plt", "", kWhat, "no default -e @MAIN (also -g)"}, SET(d.options.default_calls = false)},
      {{'g', "", "", kWhat, ""}, SET(d.options.default_calls = false)},
      {{'S', "syscalls", "", kWhat, "system calls too"}, SET(d.options.syscalls = true)},
      {{0, "slower", "DURATION", kWhat, "only calls that took at least that long: 5ms, 200us"}, set_slower},
      {{0, "where", "EXPR", kWhat, "only calls for which it holds: 'arg2 > 4096 && ret == 0'"}, set_where},
      {{'b', "no-signals", "", kWhat, "no '--- SIG... ---' lines"}, SET(d.options.text.signals = false)},
      {{0, "explain", "", kWhat, "where each filter matched, how it is probed, what was declined, and why"},
       SET(d.options.explain = true)},
      {{'p', "attach", "PID,...", kProcess, "attach to running processes"}, add_pids},
      {{'f', "follow", "", kProcess, "follow children made by fork, vfork, clone"},
       SET(d.options.follow = true)},
      {{'u', "user", "USER", kProcess, "run the command as that user (name, uid or UID:GID)"},
       SET(d.options.user = v)},
      {{0, "trust-seccomp", "", kProcess, "inject into processes under a seccomp filter"},
       SET(d.options.trust_seccomp = true)},
      {{0, "repair", "", kProcess, "heal what a tracer that died left in the -p processes, and exit"},
       SET(d.options.action = Options::Action::repair)},
      {{'F', "config", "PATHS", kArguments, "prototype files or folders, colon-separated"},
       [](Draft& d, std::string_view, const std::string& v) {
         for (std::string_view path : split(v, ':'))
           if (!path.empty()) d.options.config.emplace_back(path);
       }},
      {{0, "gen-conf", "OBJECT", kArguments, "write prototypes found in its debug info as TOML, and exit"},
       SET(d.options.action = Options::Action::gen_conf; d.options.gen_conf = v)},
      {{'A', "array-limit", "N", kArguments, "longest array printed (default 4)"},
       SET(d.options.limits.array = number(o, v, 1'000'000))},
      {{'s', "string-limit", "N", kArguments, "longest string printed (default 32)"},
       SET(d.options.limits.string = number(o, v, 1'000'000))},
      {{'y', "fds", "", kArguments, "file descriptors with the file or socket behind them"},
       SET(d.options.descriptors = true)},
      {{0, "json", "", kOutput, "one JSON object a line instead of text"}, SET(d.options.json = true)},
      {{0, "on-full", "block|drop", kOutput,
        "when nobody reads the output: wait, or lose lines and count them"},
       set_on_full},
      {{'c', "summary-only", "", kOutput, "no call lines; a table of counts and times at the end"},
       SET((d.options.summary = true, d.options.call_lines = false))},
      {{0, "summary", "", kOutput, "the table, and the call lines too"}, SET(d.options.summary = true)},
      {{0, "sort", "KEY", kOutput, "order of the table: time, self, calls, max, p99 or name"}, set_sort},
      {{0, "hist", "NAME", kOutput, "a histogram of that function's durations at the end"}, add_histogram},
      {{0, "raw-times", "", kOutput, "durations with rtrace's own share, which is shown"},
       SET(d.options.raw_times = true)},
      {{'o', "output", "FILE", kOutput, "write there instead of stderr; '-' is stdout, '|command' a pipe"},
       SET(d.options.output = v)},
      {{0, "append", "", kOutput, "append to the -o file"}, SET(d.options.append = true)},
      {{'a', "align", "N", kOutput, "column of return values"},
       SET(d.options.text.align = static_cast<unsigned>(number(o, v, 1000)))},
      {{0, "color", "WHEN", kOutput, "auto, always or never: names, strings and errors in colors"},
       set_color},
      {{'C', "demangle", "", kOutput, "demangled C++ names"}, SET(d.options.text.demangle = true)},
      {{'i', "return-address", "", kOutput, "return address of each call"},
       SET(d.options.text.return_address = true)},
      {{'n', "indent", "N", kOutput, "N blanks for each level of call nesting"},
       SET(d.options.text.indent = static_cast<unsigned>(number(o, v, 100)))},
      {{'w', "frames", "N", kOutput, "backtrace of N frames after each call"},
       SET(d.options.frames = static_cast<unsigned>(number(o, v, unwind::kMostFrames)))},
      {{0, "max-line", "N", kOutput, "longest rendering of one call (default 4096)"},
       SET(d.options.text.render.max_line = number(o, v, 100'000'000))},
      {{'r', "relative", "", kOutput, "time since the line before"}, SET(d.relative = true)},
      {{0, "struct-names", "", kOutput, "structs with the names of their members"},
       SET(d.options.text.render.struct_names = true)},
      {{'t', "", "", kOutput, "clock time; -tt with microseconds, -ttt seconds since the epoch"},
       SET(++d.clock)},
      {{0, "time", "STYLE", kOutput, "clock, us, epoch or ns"}, set_time},
      {{'T', "duration", "", kOutput, "duration of each call"}, SET(d.options.text.duration = true)},
      {{0, "utf8", "", kOutput, "characters of UTF-8 as they are, where the locale is UTF-8"},
       SET(d.utf8 = true)},
      {{'q', "quiet", "", kOutput, "fewer notices; -qq no exit lines either"}, SET(++d.options.quiet)},
      {{0, "ltrace-compat", "", kOther, "behave as ltrace does; the same as being called by that name"},
       SET(d.options.ltrace_compat = true)},
      {{0, "ready-fd", "N", kOther, "write one byte there when all is armed"},
       SET(d.options.ready_fd = static_cast<int>(number(o, v, 1 << 20)))},
      {{'D', "debug", "TOPIC", kOther, "rtrace's own log: all, or TOPIC[:LEVEL],..."}, set_debug},
      {{'h', "help", "", kOther, "this text"}, SET(d.options.action = Options::Action::help)},
      {{'V', "version", "", kOther, "the version"}, SET(d.options.action = Options::Action::version)},
  };
  return kRows;
}
#undef SET

const Row* find_letter(char letter) {
  for (const Row& row : rows())
    if (row.info.letter == letter) return &row;
  return nullptr;
}

const Row& find_long(std::string_view name) {
  std::vector<std::string> names;
  for (const Row& row : rows()) {
    if (!name.empty() && row.info.long_name == name) return row;
    if (!row.info.long_name.empty()) names.emplace_back(row.info.long_name);
  }
  auto near = nearest_names(name, names, 1);
  throw UsageError(
      fmt::format("unknown option '--{}'{}", name,
                  near.empty() ? "; see rtrace --help" : fmt::format("; did you mean --{}?", near[0])));
}

// The words of the command line, one after the other.
class Words {
 public:
  explicit Words(const std::vector<std::string>& words) : words_(words) {}
  bool done() const { return next_ == words_.size(); }
  const std::string& peek() const { return words_[next_]; }
  std::string take() { return words_[next_++]; }
  std::ptrdiff_t taken() const { return static_cast<std::ptrdiff_t>(next_); }
  std::string value_of(std::string_view option) {
    if (done()) throw UsageError(fmt::format("{}: a value is missing; see rtrace --help", option));
    return take();
  }

 private:
  const std::vector<std::string>& words_;
  size_t next_ = 0;
};

void parse_long(Draft& draft, Words& words) {
  const std::string word = words.take();
  const size_t equals = word.find('=');
  const std::string name = word.substr(2, equals == std::string::npos ? equals : equals - 2);
  const Row& row = find_long(name);
  std::string value;
  if (row.info.value.empty() && equals != std::string::npos)
    throw UsageError(fmt::format("--{} takes no value", name));
  if (!row.info.value.empty())
    value = equals != std::string::npos ? word.substr(equals + 1) : words.value_of("--" + name);
  row.apply(draft, "--" + name, value);
}

void parse_bundle(Draft& draft, Words& words) {
  const std::string word = words.take();
  for (size_t i = 1; i < word.size(); ++i) {
    const std::string option = std::string("-") + word[i];
    const Row* row = find_letter(word[i]);
    if (row == nullptr) {
      std::string in = word.size() > 2 ? fmt::format(" in '{}'", word) : "";
      std::string hint = word.size() > 3 ? fmt::format("did you mean -{}?", word) : "see rtrace --help";
      throw UsageError(fmt::format("unknown option '{}'{}; {}", option, in, hint));
    }
    if (row->info.value.empty()) {
      row->apply(draft, option, "");
      continue;
    }
    row->apply(draft, option, i + 1 < word.size() ? word.substr(i + 1) : words.value_of(option));
    return;
  }
}

plan::Request make_request(plan::Request::Kind kind, const std::string& text, plan::Syntax syntax) {
  using Kind = plan::Request::Kind;
  const char letter = kind == Kind::call ? 'e' : kind == Kind::library ? 'l' : 'x';
  plan::Request request;
  request.kind = kind;
  if (kind == Kind::entry && plan::SdtFilter::is_meant(text)) {
    request.kind = Kind::sdt;
    request.sdt = plan::SdtFilter::parse(text);
  } else {
    request.filter =
        kind == Kind::library ? plan::Filter::of_library(text) : plan::Filter::parse(text, syntax);
  }
  request.text = fmt::format("-{} {}", letter, text);
  return request;
}

void settle_requests(Draft& draft) {
  const bool compat = draft.options.ltrace_compat;
  const plan::Syntax syntax = compat ? plan::Syntax::ltrace : plan::Syntax::rtrace;
  auto& all = draft.options.requests.all;
  for (const auto& [kind, text] : draft.filters) all.push_back(make_request(kind, text, syntax));
  const bool chosen = std::any_of(all.begin(), all.end(), [&](const plan::Request& request) {
    return !compat || request.kind != plan::Request::Kind::entry;
  });
  if (chosen || !draft.options.default_calls) return;
  plan::Request request = make_request(plan::Request::Kind::call, "@MAIN", syntax);
  request.hide_caller = true;
  all.push_back(std::move(request));
}

void settle_time(Draft& draft) {
  using sink::TimeStyle;
  TimeStyle& style = draft.options.text.time;
  if (draft.relative) style = TimeStyle::relative;
  if (draft.clock == 1) style = TimeStyle::clock;
  if (draft.clock == 2) style = TimeStyle::clock_us;
  if (draft.clock > 2) style = TimeStyle::epoch_us;
  if (draft.time_name == "clock") style = TimeStyle::clock;
  if (draft.time_name == "us") style = TimeStyle::clock_us;
  if (draft.time_name == "epoch") style = TimeStyle::epoch_us;
  if (draft.time_name == "ns") style = TimeStyle::epoch_ns;
}

void settle_pid_prefix(Options& options) {
  using sink::PidPrefix;
  const bool several = options.pids.size() + !options.command.empty() > 1;
  if (!options.ltrace_compat) {
    options.text.pid = several ? PidPrefix::always : PidPrefix::from_the_second_task;
    return;
  }
  options.text.pid = options.follow ? PidPrefix::always : PidPrefix::never;
  if (!options.output.empty() && (options.follow || !options.pids.empty()))
    options.text.pid = PidPrefix::bare;
}

void settle(Draft& draft) {
  Options& options = draft.options;
  settle_requests(draft);
  settle_time(draft);
  if (options.action == Options::Action::repair && (options.pids.empty() || !options.command.empty()))
    throw UsageError("--repair goes with -p PID, and with no command");
  if (options.action == Options::Action::gen_conf && !(options.pids.empty() && options.command.empty()))
    throw UsageError("--gen-conf goes with no process: it only writes prototypes");
  if (options.action != Options::Action::trace) return;
  if (options.command.empty() && options.pids.empty())
    throw UsageError("nothing to trace: a command or -p PID is expected; see rtrace --help");
  if (!options.user.empty() && options.command.empty())
    throw UsageError(fmt::format("-u {}: it goes with a command to run", options.user));
  for (const std::string& path : options.config)
    if (access(path.c_str(), R_OK) != 0) throw UsageError(fmt::format("-F {}: {}", path, strerror(errno)));
  if (options.requests.all.empty() && options.quiet == 0 && !options.default_calls && !options.syscalls)
    throw UsageError("-L without -e, -l, -x or -S leaves nothing to trace; see rtrace --help");
  options.text.exits = options.quiet < 2;
  options.raw_times |= options.ltrace_compat;
  options.text.color = !options.json && color_wanted(draft.color, options.output);
  options.text.render.utf8 = draft.utf8 && locale_is_utf8();
  settle_pid_prefix(options);
}

}  // namespace

Options parse_options(const std::vector<std::string>& arguments, std::string_view program) {
  Draft draft;
  draft.options.ltrace_compat = program.substr(program.rfind('/') + 1) == "ltrace";
  draft.options.text.align = default_align();
  Words words(arguments);
  while (!words.done()) {
    const std::string& word = words.peek();
    if (word.size() < 2 || word[0] != '-') break;
    if (word == "--") {
      words.take();
      break;
    }
    if (word.starts_with("--"))
      parse_long(draft, words);
    else
      parse_bundle(draft, words);
  }
  draft.options.words.assign(arguments.begin(), arguments.begin() + words.taken());
  while (!words.done()) draft.options.command.push_back(words.take());
  settle(draft);
  return std::move(draft.options);
}

const std::vector<OptionInfo>& option_table() {
  static const std::vector<OptionInfo> kTable = [] {
    std::vector<OptionInfo> table;
    for (const Row& row : rows()) table.push_back(row.info);
    return table;
  }();
  return kTable;
}

std::string help_text() {
  std::string text =
      "Usage: rtrace [options] [--] command [arg ...]\n"
      "       rtrace [options] -p PID[,PID...] [[--] command [arg ...]]\n"
      "Traces the library calls of a process.\n";
  std::string_view group;
  for (const OptionInfo& info : option_table()) {
    if (info.help.empty()) continue;
    if (info.group != group) text += fmt::format("{}:\n", group = info.group);
    std::string names = info.letter != 0 ? fmt::format("-{}", info.letter) : "   ";
    if (!info.long_name.empty())
      names += fmt::format("{} --{}{}", info.letter != 0 ? "," : "", info.long_name,
                           info.value.empty() ? "" : "=");
    names += info.value;
    text += fmt::format("  {:<24} {}\n", names, info.help);
  }
  text +=
      "Filters are SYMBOL[@LIBRARY] with globs or /regex/, joined by + and -, or, with -x, SDT probes:\n"
      "sdt:PROVIDER:NAME, sdt:PROVIDER:BEGIN..END. See rtrace(1).\n";
  return text;
}

std::string version_text() {
  return "rtrace " RTRACE_VERSION "\n";
}

}  // namespace rtrace::session
