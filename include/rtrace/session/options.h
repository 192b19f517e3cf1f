// The command line, parsed.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "rtrace/base/error.h"
#include "rtrace/decode/call_decoder.h"
#include "rtrace/plan/plan.h"
#include "rtrace/sink/summary_table.h"
#include "rtrace/sink/text_sink.h"

namespace rtrace::session {

// What is wrong with the command line: one line, with the offending word and a hint.
class UsageError : public Error {
 public:
  using Error::Error;
};

struct Options {
  enum class Action : uint8_t { trace, repair, help, version, gen_conf };
  Action action = Action::trace;

  std::vector<std::string> command;
  std::vector<pid_t> pids;
  plan::Requests requests;          // the default rule included, where it holds
  std::vector<std::string> config;  // -F, in order
  decode::Limits limits;
  std::optional<size_t> shown_string;  // -s, where `where` makes us read more of strings
  sink::TextOptions text;
  unsigned frames = 0;       // -w
  bool descriptors = false;  // -y
  bool call_lines = true;    // off: -c
  bool summary = false;      // -c, --summary
  sink::SortKey sort = sink::SortKey::time;
  std::vector<std::string> histograms;  // --hist
  bool raw_times = false;               // durations hold rtrace's own share; --ltrace-compat too
  bool json = false;
  uint64_t slower = 0;  // ns
  std::string where;    // an expression (rtrace/sink/where.h); empty: none
  enum class Cpu : uint8_t { follow, any };
  Cpu cpu = Cpu::follow;
  enum class Mechanism : uint8_t { automatic, breakpoint, trampoline };
  Mechanism mechanism = Mechanism::automatic;
  enum class OnFull : uint8_t { block, drop };
  OnFull on_full = OnFull::block;
  std::vector<std::string> words;  // the options as given, the command left out
  bool follow = false;             // -f
  bool syscalls = false;           // -S
  bool explain = false;
  bool trust_seccomp = false;
  bool ltrace_compat = false;
  bool default_calls = true;  // off: -L
  unsigned quiet = 0;         // -q: attach and detach; -qq: exits too
  std::string output;         // -o: a path, "-" for stdout, "|command"; empty: stderr
  bool append = false;
  std::string user;      // -u
  std::string gen_conf;  // --gen-conf: the object
  int ready_fd = -1;

  // Somebody wants to know of the probes, what they are and what their prototypes say.
  bool lists_probes() const { return json || !where.empty(); }
};

// `arguments` without the program's name, `program` as it was called: as `ltrace` it behaves as that does.
// Throws UsageError, FilterError.
Options parse_options(const std::vector<std::string>& arguments, std::string_view program = "rtrace");

std::string help_text();
std::string version_text();
// $COLUMNS, else the tty's of stdout or stderr, else 80.
unsigned terminal_width();
// The column where return values begin when -a is silent: 5/8 of the terminal's width.
unsigned default_align();

// One row of the option table, for the completions' and the man page's tests as well.
struct OptionInfo {
  char letter = 0;  // 0: long only
  std::string_view long_name;
  std::string_view value;  // how help names the value; empty: takes none
  std::string_view group;
  std::string_view help;
};
const std::vector<OptionInfo>& option_table();

}  // namespace rtrace::session
