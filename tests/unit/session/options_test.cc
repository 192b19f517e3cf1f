#include "rtrace/session/options.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/wait.h>

#include <cstdlib>
#include <functional>

#include "rtrace/base/log.h"
#include "rtrace/base/text.h"

namespace rtrace::session::options_test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  for (std::string_view word : split(line, ' ')) words.emplace_back(word);
  return words;
}

// Collects "name=value" for what differs from what a command line without options gives.
class Differences {
 public:
  template <typename T>
  void add(std::string_view name, const T& value, const T& usual) {
    if (value != usual) text_ += fmt::format("{}{}={}", text_.empty() ? "" : " ", name, value);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string requests_of(const Options& options) {
  std::vector<std::string> texts;
  for (const auto& request : options.requests.all)
    texts.push_back(request.text + (request.hide_caller ? " (default)" : ""));
  return fmt::format("{}", fmt::join(texts, "; "));
}

std::string canonical(const Options& options) {
  const Options usual = parse_options({"usual"});
  Differences all;
  all.add("action", static_cast<int>(options.action), 0);
  all.add("command", fmt::format("{}", fmt::join(options.command, ",")), std::string("cmd"));
  all.add("pids", fmt::format("{}", fmt::join(options.pids, ",")), std::string());
  all.add("requests", requests_of(options), requests_of(usual));
  all.add("config", fmt::format("{}", fmt::join(options.config, ",")), std::string());
  all.add("string", options.limits.string, size_t{32});
  all.add("array", options.limits.array, size_t{4});
  all.add("align", options.text.align, usual.text.align);
  all.add("relative", options.text.relative, false);
  all.add("time", static_cast<int>(options.text.time), 0);
  all.add("indent", options.text.indent, 0u);
  all.add("return_address", options.text.return_address, false);
  all.add("duration", options.text.duration, false);
  all.add("trust_seccomp", options.trust_seccomp, false);
  all.add("signals", options.text.signals, true);
  all.add("demangle", options.text.demangle, false);
  all.add("exits", options.text.exits, true);
  all.add("pid", static_cast<int>(options.text.pid), 0);
  all.add("ltrace_compat", options.ltrace_compat, false);
  all.add("summary", options.summary, false);
  all.add("frames", options.frames, 0u);
  all.add("descriptors", options.descriptors, false);
  all.add("call_lines", options.call_lines, true);
  all.add("sort", sink::sort_keys()[static_cast<size_t>(options.sort)], std::string("time"));
  all.add("hist", fmt::format("{}", fmt::join(options.histograms, "|")), std::string());
  all.add("raw_times", options.raw_times, options.ltrace_compat);
  all.add("json", options.json, false);
  all.add("slower", options.slower, uint64_t{0});
  all.add("where", options.where, std::string());
  all.add("color", options.text.color, false);
  all.add("struct_names", options.text.render.struct_names, false);
  all.add("utf8", options.text.render.utf8, false);
  all.add("max_line", options.text.render.max_line, size_t{4096});
  all.add("on_full", static_cast<int>(options.on_full), 0);
  all.add("cpu", static_cast<int>(options.cpu), 0);
  all.add("mechanism", static_cast<int>(options.mechanism), 0);
  all.add("follow", options.follow, false);
  all.add("syscalls", options.syscalls, false);
  all.add("explain", options.explain, false);
  all.add("default_calls", options.default_calls, true);
  all.add("quiet", options.quiet, 0u);
  all.add("output", options.output, std::string());
  all.add("append", options.append, false);
  all.add("user", options.user, std::string());
  all.add("ready_fd", options.ready_fd, -1);
  all.add("gen_conf", options.gen_conf, std::string());
  return all.text();
}

constexpr int kClock = static_cast<int>(sink::TimeStyle::clock),
              kClockUs = static_cast<int>(sink::TimeStyle::clock_us),
              kEpochUs = static_cast<int>(sink::TimeStyle::epoch_us),
              kEpochNs = static_cast<int>(sink::TimeStyle::epoch_ns);

struct Row {
  std::string line;
  std::string effect;
};

const std::vector<Row>& rows() {
  const auto time = [](int style) { return fmt::format("time={}", style); };
  static const std::vector<Row> kRows = {
      {"cmd", ""},
      {"cmd -x -q --help", "command=cmd,-x,-q,--help"},
      {"-- -cmd -q", "command=-cmd,-q"},
      {"-q -- cmd", "quiet=1"},
      {"- a", "command=-,a"},
      {"-e malloc cmd", "requests=-e malloc"},
      {"-emalloc@libc.so.6 cmd", "requests=-e malloc@libc.so.6"},
      {"--calls=@MAIN cmd", "requests=-e @MAIN"},
      {"--calls free cmd", "requests=-e free"},
      {"-l libz.so.1 cmd", "requests=-l libz.so.1"},
      {"--library=libz* cmd", "requests=-l libz*"},
      {"-x f cmd", "requests=-x f"},
      {"--entry f -x g cmd", "requests=-x f; -x g"},
      {"-x f -e g -l h cmd", "requests=-x f; -e g; -l h"},
      {"-L -x f cmd", "requests=-x f default_calls=false"},
      {"--no-plt -x f cmd", "requests=-x f default_calls=false"},
      {"-g -x f cmd", "requests=-x f default_calls=false"},
      {"-ttTgx name cmd",
       fmt::format("requests=-x name time={} duration=true default_calls=false", kClockUs)},
      {"-ttTgxname cmd", fmt::format("requests=-x name time={} duration=true default_calls=false", kClockUs)},
      {"-b cmd", "signals=false"},
      {"--no-signals cmd", "signals=false"},
      {"--explain cmd", "explain=true"},
      {"-p 12", "command= pids=12"},
      {"-p12,0x20 -p 7", "command= pids=12,32,7 pid=1"},
      {"--attach=12 cmd", "pids=12 pid=1"},
      {"-f cmd", "follow=true"},
      {"--follow cmd", "follow=true"},
      {"-S cmd", "syscalls=true"},
      {"--syscalls cmd", "syscalls=true"},
      {"-u nobody cmd", "user=nobody"},
      {"--user=5:6 cmd", "user=5:6"},
      {"-F /dev/null:/ cmd", "config=/dev/null,/"},
      {"--config=/ -F :/dev/null: cmd", "config=/,/dev/null"},
      {"-A 9 cmd", "array=9"},
      {"--array-limit=0x10 cmd", "array=16"},
      {"-s 0 cmd", "string=0"},
      {"--string-limit 100 cmd", "string=100"},
      {"-w 5 cmd", "frames=5"},
      {"--frames=0x10 cmd", "frames=16"},
      {"-y cmd", "descriptors=true"},
      {"--fds cmd", "descriptors=true"},
      {"-c cmd", "summary=true call_lines=false"},
      {"--summary-only cmd", "summary=true call_lines=false"},
      {"--summary cmd", "summary=true"},
      {"--summary -c cmd", "summary=true call_lines=false"},
      {"-c --sort=self cmd", "summary=true call_lines=false sort=self"},
      {"--sort calls --sort=name cmd", "sort=name"},
      {"--sort=p99 cmd", "sort=p99"},
      {"--sort=max cmd", "sort=max"},
      {"--sort=time cmd", ""},
      {"--hist=f --hist g --hist=f cmd", "hist=f|g"},
      {"--hist=f,g(int,char),h<a,b>,f --hist operator,,i cmd", "hist=f|g(int,char)|h<a,b>|operator,|i"},
      {"--raw-times -T cmd", "duration=true raw_times=true"},
      {"--json cmd", "json=true"},
      {"--slower=5ms cmd", "slower=5000000"},
      {"--slower 1.5s cmd", "slower=1500000000"},
      {"--where=arg1>2&&ret==0 cmd", "where=arg1>2&&ret==0"},
      {"--where=3 cmd", "frames=3"},
      {"--where=7 --where=arg1>2 cmd", "frames=7 where=arg1>2"},
      {"--color=always cmd", "color=true"},
      {"--color=always --color=never cmd", ""},
      {"--color auto cmd", ""},
      {"--color=always --json cmd", "json=true"},
      {"--struct-names cmd", "struct_names=true"},
      {"--max-line=100 cmd", "max_line=100"},
      {"--on-full=drop cmd", "on_full=1"},
      {"--on-full block cmd", ""},
      {"--cpu=any cmd", "cpu=1"},
      {"--mechanism=auto cmd", ""},
      {"--mechanism=breakpoint cmd", "mechanism=1"},
      {"--mechanism trampoline cmd", "mechanism=2"},
      {"--cpu follow cmd", ""},
      {"-o out cmd", "output=out"},
      {"-o - cmd", "output=-"},
      {"--output=|cat cmd", "output=|cat"},
      {"--output=out --append cmd", "output=out append=true"},
      {"-a 0 cmd", "align=0"},
      {"--align=1000 cmd", "align=1000"},
      {"-C cmd", "demangle=true"},
      {"--demangle cmd", "demangle=true"},
      {"-i cmd", "return_address=true"},
      {"--return-address cmd", "return_address=true"},
      {"-n 2 cmd", "indent=2"},
      {"--indent=010 cmd", "indent=8"},
      {"-r cmd", "relative=true"},
      {"--relative cmd", "relative=true"},
      {"-ttr cmd", fmt::format("relative=true time={}", kClockUs)},
      {"-t cmd", time(kClock)},
      {"-tt cmd", time(kClockUs)},
      {"-t -tt cmd", time(kEpochUs)},
      {"-tttt cmd", time(kEpochUs)},
      {"--time=clock cmd", time(kClock)},
      {"--time=us cmd", time(kClockUs)},
      {"--time=epoch cmd", time(kEpochUs)},
      {"--time ns cmd", time(kEpochNs)},
      {"-T cmd", "duration=true"},
      {"--duration cmd", "duration=true"},
      {"-q cmd", "quiet=1"},
      {"-qq cmd", "exits=false quiet=2"},
      {"--quiet -q cmd", "exits=false quiet=2"},
      {"--ready-fd=2 cmd", "ready_fd=2"},
      {"--ready-fd 0 cmd", "ready_fd=0"},
      {"-D elf:0 cmd", ""},
      {"--debug=elf:0,mech:0 cmd", ""},
      {"--trust-seccomp cmd", "trust_seccomp=true"},
      {"--ltrace-compat cmd", "pid=3 ltrace_compat=true"},
      {"--ltrace-compat -f cmd", "pid=1 ltrace_compat=true follow=true"},
      {"--ltrace-compat -f -o out cmd", "pid=2 ltrace_compat=true follow=true output=out"},
      {"--ltrace-compat -p 12 -o out", "command= pids=12 pid=2 ltrace_compat=true output=out"},
      {"--ltrace-compat -p 12 -p 13", "command= pids=12,13 pid=3 ltrace_compat=true"},
      {"--ltrace-compat -o out cmd", "pid=3 ltrace_compat=true output=out"},
      {"--ltrace-compat -x f cmd", "requests=-x f; -e @MAIN (default) pid=3 ltrace_compat=true"},
      {"--ltrace-compat -L -x f cmd", "requests=-x f pid=3 ltrace_compat=true default_calls=false"},
      {"--ltrace-compat -x f -l g cmd", "requests=-x f; -l g pid=3 ltrace_compat=true"},
      {"--ltrace-compat -x f -e g cmd", "requests=-x f; -e g pid=3 ltrace_compat=true"},
      {"--repair -p 12", "action=1 command= pids=12"},
      {"--gen-conf=/bin/true", "action=4 command= gen_conf=/bin/true"},
      {"--gen-conf /bin/true", "action=4 command= gen_conf=/bin/true"},
      {"-h", "action=2 command="},
      {"--help", "action=2 command="},
      {"-V", "action=3 command="},
      {"--version", "action=3 command="},
  };
  return kRows;
}

TEST(Options, Utf8NeedsALocaleOfUtf8) {
  const char* const given = getenv("LC_ALL");
  const std::string before = given != nullptr ? given : "";
  for (const auto& [locale, effect] : {std::pair{"C", ""}, {"C.UTF-8", "utf8=true"}}) {
    setenv("LC_ALL", locale, 1);
    EXPECT_EQ(canonical(parse_options({"--utf8", "cmd"})), effect) << locale;
  }
  if (given != nullptr)
    setenv("LC_ALL", before.c_str(), 1);
  else
    unsetenv("LC_ALL");
}

TEST(Options, EachHasItsEffectAndNoOther) {
  for (const Row& row : rows()) {
    try {
      EXPECT_EQ(canonical(parse_options(words_of(row.line))), row.effect) << row.line;
    } catch (const Error& error) {
      ADD_FAILURE() << row.line << ": " << error.what();
    }
  }
}

// True where a row uses the option, apart from others.
bool is_used(const std::string& option) {
  if (option == "--utf8") return true;  // it depends on the environment, and has a test of its own
  for (const Row& row : rows())
    for (const std::string& word : words_of(row.line))
      if (word == option || word.starts_with(option + "=")) return true;
  return false;
}

TEST(Options, EachSpellingStandsInTheRowsAbove) {
  for (const OptionInfo& info : option_table()) {
    if (info.letter != 0) {
      EXPECT_TRUE(is_used(fmt::format("-{}", info.letter))) << info.letter;
    }
    if (!info.long_name.empty()) {
      EXPECT_TRUE(is_used(fmt::format("--{}", info.long_name))) << info.long_name;
    }
  }
}

TEST(Options, DebugTopicsTakeEffect) {
  parse_options(words_of("-D mech:2 cmd"));
  EXPECT_EQ(log::level(log::Topic::mech), 2);
  log::set_level(log::Topic::mech, 0);
}

TEST(Options, TheNameOfTheProgramDecides) {
  EXPECT_TRUE(parse_options({"cmd"}, "ltrace").ltrace_compat);
  EXPECT_TRUE(parse_options({"cmd"}, "/usr/bin/ltrace").ltrace_compat);
  EXPECT_FALSE(parse_options({"cmd"}, "/opt/ltrace/rtrace").ltrace_compat);
  EXPECT_FALSE(parse_options({"cmd"}, "rtrace-ltrace").ltrace_compat);
}

TEST(Options, AsLtraceFiltersAreReadAsItReadsThem) {
  const plan::ObjectNames library{"/lib/libc.so.6", "libc.so.6", false};
  const auto takes_f = [&](std::string_view line) {
    return parse_options(words_of(line)).requests.all[0].filter.matches("f", library);
  };
  // Every sign splits, and nothing between two of them is everything.
  EXPECT_TRUE(takes_f("--ltrace-compat -e @libstdc++.so.6 cmd"));
  EXPECT_FALSE(takes_f("-e @libstdc++.so.6 cmd"));
  EXPECT_TRUE(takes_f("--ltrace-compat -e +g cmd"));
  EXPECT_FALSE(takes_f("-e +g cmd"));
}

TEST(Options, MistakesAreNamedWithAHint) {
  const Row mistakes[] = {
      {"", "nothing to trace"},
      {"-q", "nothing to trace"},
      {"--", "nothing to trace"},
      {"--folow cmd", "unknown option '--folow'; did you mean --follow?"},
      {"--sumary-only cmd", "did you mean --summary-only?"},
      {"-c --sort=calsl cmd",
       "--sort=calsl: one of time, self, calls, max, p99, name is expected; did you mean calls?"},
      {"--sort cmd", "one of time, self, calls, max, p99, name is expected"},
      {"--hist= cmd", "--hist=: the name of a function is expected"},
      {"--hist=f,,g cmd", "--hist=f,,g: the name of a function is expected"},
      {"--qqqqqqqqqq cmd", "unknown option '--qqqqqqqqqq'"},
      {"--=3 cmd", "unknown option '--'"},
      {"-Z cmd", "unknown option '-Z'; see rtrace --help"},
      {"-tZ cmd", "unknown option '-Z' in '-tZ'"},
      {"-x", "-x: a value is missing"},
      {"-ttx", "-x: a value is missing"},
      {"--entry", "--entry: a value is missing"},
      {"--follow=1 cmd", "--follow takes no value"},
      {"-s many cmd", "-s many: a number"},
      {"-s -1 cmd", "-s -1: a number"},
      {"--string-limit= cmd", "--string-limit : a number"},
      {"-a 1001 cmd", "from 0 to 1000"},
      {"-n 99999999999999999999 cmd", "-n 99999999999999999999"},
      {"--on-full=wait cmd", "block or drop is expected"},
      {"--cpu=1 cmd", "follow or any is expected"},
      {"--mechanism=uprobe cmd", "auto, breakpoint or trampoline is expected"},
      {"--ready-fd=1000000 cmd", "Bad file descriptor"},
      {"--slower=5 cmd", "a duration is expected"},
      {"--slower=fast cmd", "a duration is expected"},
      {"--color=maybe cmd", "auto, always or never"},
      {"--max-line=x cmd", "a number from 0"},
      {"--time=noon cmd", "one of clock, us, epoch, ns"},
      {"-p 0", "'0' is no process id"},
      {"-p 1,x", "'x' is no process id"},
      {"-p 1,", "'' is no process id"},
      {"-p 99999999999", "is no process id"},
      {"--ready-fd=x cmd", "--ready-fd x"},
      {"-D nothing cmd", "no such topic"},
      {"-F /nonexistent/file cmd", "-F /nonexistent/file: No such file or directory"},
      {"-u nobody -p 1", "-u nobody"},
      {"-L cmd", "-L without -e, -l, -x or -S leaves nothing to trace"},
      {"--append cmd", "--append goes with -o FILE"},
      {"--append -o |cat cmd", "--append goes with -o FILE"},
      {"--repair -p 12 -x foo", "--repair traces nothing"},
      {"--gen-conf=/bin/true -S", "--gen-conf traces nothing"},
      {"-q -L cmd", "-L without -e, -l, -x or -S leaves nothing to trace"},
  };
  for (const Row& row : mistakes) {
    const auto words = row.line.empty() ? std::vector<std::string>() : words_of(row.line);
    try {
      const Options options = parse_options(words);
      ADD_FAILURE() << row.line << ": taken as " << canonical(options);
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), HasSubstr(row.effect)) << row.line;
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << row.line;
    }
  }
}

TEST(Options, AFilterThatDoesNotParseIsShownWithACaret) {
  try {
    parse_options(words_of("-x /(/ cmd"));
    ADD_FAILURE() << "an unclosed group was taken";
  } catch (const plan::FilterError& error) {
    EXPECT_THAT(error.what(), HasSubstr("^"));
  }
}

TEST(OptionTable, EachRowSaysWhatItIsFor) {
  for (const OptionInfo& info : option_table()) {
    EXPECT_TRUE(info.letter != 0 || !info.long_name.empty());
    EXPECT_FALSE(info.group.empty());
    // -g is an alias, told with -L.
    EXPECT_EQ(info.help.empty(), info.letter == 'g') << info.letter << info.long_name;
  }
}

TEST(OptionTable, NoSpellingIsTakenTwice) {
  std::vector<std::string> names;
  for (const OptionInfo& info : option_table()) {
    if (info.letter != 0) names.emplace_back(1, info.letter);
    if (!info.long_name.empty()) names.push_back("--" + std::string(info.long_name));
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

std::string help_for(const char* columns) {
  setenv("COLUMNS", columns, 1);
  std::string help = help_text();
  unsetenv("COLUMNS");
  return help;
}

TEST(Help, FitsTheTerminal) {
  for (size_t width : {60u, 80u, 200u})
    for (std::string_view line : split(help_for(std::to_string(width).c_str()), '\n'))
      EXPECT_LT(line.size(), width) << line;
  EXPECT_THAT(help_for("60"), HasSubstr("\n  -S, --syscalls           system calls too\n"));
  EXPECT_THAT(
      help_for("60"),
      HasSubstr("entries of functions, static\n                           ones too, in any object\n"));
}

TEST(Help, HasALineForEachOption) {
  const std::string help = help_for("80");
  EXPECT_THAT(help, StartsWith("Usage: rtrace "));
  for (const OptionInfo& info : option_table()) {
    if (info.help.empty()) continue;
    EXPECT_THAT(help, HasSubstr(std::string(info.help)));
    if (!info.long_name.empty()) {
      EXPECT_THAT(help, HasSubstr("--" + std::string(info.long_name)));
    }
  }
  EXPECT_THAT(version_text(), testing::MatchesRegex("rtrace [0-9.]+\n"));
}

// In a process of its own, whose output is no terminal.
int align_with(const char* columns) {
  const pid_t pid = fork();
  if (pid == 0) {
    const int null = open("/dev/null", O_RDWR);
    dup2(null, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
    if (columns != nullptr)
      setenv("COLUMNS", columns, 1);
    else
      unsetenv("COLUMNS");
    _exit(static_cast<int>(default_align()));
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Align, IsFiveEighthsOfTheWidth) {
  struct Width {
    const char* columns;
    int align;
  };
  const Width widths[] = {{nullptr, 50}, {"80", 50}, {"160", 100}, {"1", 0},     {"0", 50},
                          {"", 50},      {"-4", 50}, {"wide", 50}, {"10000", 50}};
  for (const Width& row : widths)
    EXPECT_EQ(align_with(row.columns), row.align) << (row.columns != nullptr ? row.columns : "unset");
}

}  // namespace
}  // namespace rtrace::session::options_test
