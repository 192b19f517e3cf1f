#include "rtrace/session/run.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "front_end.h"
#include "gen_conf.h"
#include "own_pages.h"
#include "repair_command.h"
#include "rtrace/base/text.h"
#include "rtrace/session/options.h"
#include "rtrace/tracee/proc_fs.h"
#include "terminal.h"

namespace rtrace::session {
namespace {

int print(const std::string& text) {
  return ::write(STDOUT_FILENO, text.data(), text.size()) < 0 ? 1 : 0;
}

// Of words of the command line, too, no control character reaches the terminal. Some messages have several
// lines.
int fail(const std::string& message) {
  std::string text = "rtrace: ";
  const bool utf8 = locale_is_utf8();
  for (const std::string_view line : split(message, '\n')) {
    append_printable(text, line, utf8);
    text += '\n';
  }
  (void)!::write(STDERR_FILENO, text.data(), text.size());
  return 1;
}

}  // namespace

// A descriptor of ours must never become somebody's standard output. Those that were closed stay so for the
// command, and for us: what is opened in their places takes no output, and gives no input.
static void open_standard_files() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd)
    if (fcntl(fd, F_GETFD) < 0)
      (void)!open("/dev/null", (fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
}

int run(int argc, char** argv) try {
  bring_in_front_end();
  open_standard_files();
  const Options options =
      parse_options(std::vector<std::string>(argv + std::min(argc, 1), argv + argc), argc > 0 ? argv[0] : "");
  if (options.trust_seccomp) tracee::trust_seccomp();
  switch (options.action) {
    case Options::Action::help:
      return print(help_text());
    case Options::Action::version:
      return print(version_text());
    case Options::Action::gen_conf:
      return generate_configuration(options);
    case Options::Action::repair:
    case Options::Action::trace:
      break;
  }
  if (const std::string reason = tracee::why_proc_is_not_ours(); !reason.empty()) return fail(reason);
  if (options.action == Options::Action::repair) return repair_processes(options);
  return FrontEnd(options).run();
} catch (const Error& error) {
  return fail(error.what());
}

}  // namespace rtrace::session
