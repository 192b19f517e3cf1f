#include "rtrace/session/options.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "option_rows.h"
#include "rtrace/base/text.h"
#include "rtrace/sink/where.h"
#include "terminal.h"

namespace rtrace::session {
namespace {

const Row* find_letter(char letter) {
  for (const Row& row : option_rows())
    if (row.info.letter == letter) return &row;
  return nullptr;
}

const Row& find_long(std::string_view name) {
  std::vector<std::string> names;
  for (const Row& row : option_rows()) {
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
      std::string hint = word.size() > 3 && word.find('=') == std::string::npos
                             ? fmt::format("did you mean -{}?", word)
                             : "see rtrace --help";
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

// What is compared is read further than what is printed.
void settle_where(Options& options) {
  constexpr size_t kCompared = 4096;
  if (options.where.empty() || options.limits.string >= kCompared) return;
  if (!sink::Where::parse(options.where).reads_text()) return;
  options.shown_string = options.limits.string;
  options.limits.string = kCompared;
}

void refuse_contradictions(const Draft& draft) {
  using Action = Options::Action;
  const Options& options = draft.options;
  const bool repairs = options.action == Action::repair, generates = options.action == Action::gen_conf;
  if (repairs && (options.pids.empty() || !options.command.empty()))
    throw UsageError("--repair goes with -p PID, and with no command");
  if (generates && !(options.pids.empty() && options.command.empty()))
    throw UsageError("--gen-conf goes with no process: it only writes prototypes");
  if ((repairs || generates) && (!draft.filters.empty() || options.syscalls))
    throw UsageError(fmt::format("{} traces nothing: it goes without -e, -l, -x and -S",
                                 repairs ? "--repair" : "--gen-conf"));
  const bool has_file = !options.output.empty() && !options.output.starts_with('|');
  if (options.action == Action::trace && options.append && !has_file)
    throw UsageError("--append goes with -o FILE");
}

void settle(Draft& draft) {
  Options& options = draft.options;
  refuse_contradictions(draft);
  settle_requests(draft);
  settle_time(draft);
  settle_where(options);
  if (options.action != Options::Action::trace) return;
  if (options.command.empty() && options.pids.empty())
    throw UsageError("nothing to trace: a command or -p PID is expected; see rtrace --help");
  if (!options.user.empty() && options.command.empty())
    throw UsageError(fmt::format("-u {}: it goes with a command to run", options.user));
  for (const std::string& path : options.config)
    if (access(path.c_str(), R_OK) != 0) throw UsageError(fmt::format("-F {}: {}", path, strerror(errno)));
  const bool nothing = options.requests.all.empty() && !options.default_calls && !options.syscalls;
  if (nothing && !options.ltrace_compat)
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
    for (const Row& row : option_rows()) table.push_back(row.info);
    return table;
  }();
  return kTable;
}

// Words with one blank between them; where a line is full the next begins at the column where this one began.
static void append_wrapped(std::string& text, std::string_view words, size_t column, size_t width) {
  const size_t start = text.rfind('\n') + 1;
  size_t used = text.size() - start;
  bool first = true;
  for (std::string_view word : split(words, ' ')) {
    if (!first && used + 1 + word.size() > width) {
      text += '\n' + std::string(column, ' ');
      used = column;
      first = true;
    }
    if (!first) text += ' ';
    text += word;
    used += word.size() + (first ? 0 : 1);
    first = false;
  }
  text += '\n';
}

std::string help_text() {
  constexpr size_t kColumn = 27;
  const size_t width = std::max<size_t>(terminal_width() - 1, 2 * kColumn);
  std::string text =
      "Usage: rtrace [options] [--] command [arg ...]\n"
      "       rtrace [options] -p PID[,PID...] [[--] command ...]\n"
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
    text += fmt::format("  {:<24} ", names);
    append_wrapped(text, info.help, kColumn, width);
  }
  append_wrapped(
      text,
      "Filters are SYMBOL[@LIBRARY] with globs or /regex/, joined by + and -, or, with -x, SDT probes: "
      "sdt:PROVIDER:NAME, sdt:PROVIDER:BEGIN..END. See rtrace(1).",
      0, width);
  return text;
}

std::string version_text() {
  return "rtrace " RTRACE_VERSION "\n";
}

}  // namespace rtrace::session
