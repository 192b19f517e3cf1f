#include "terminal.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "helper_program.h"
#include "rtrace/base/text.h"
#include "rtrace/base/unique_fd.h"
#include "rtrace/session/options.h"

namespace rtrace::session {
namespace {

bool is_set(const char* name) {
  const char* value = getenv(name);
  return value != nullptr && *value != '\0';
}

bool is_terminal(const std::string& output) {
  if (output.empty()) return isatty(STDERR_FILENO) != 0;
  if (output == "-") return isatty(STDOUT_FILENO) != 0;
  // A file is opened when its time comes: opening a pipe or a device may mean something.
  struct stat status {};
  if (stat(output.c_str(), &status) != 0 || !S_ISCHR(status.st_mode)) return false;
  const UniqueFd file(open(output.c_str(), O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC));
  return file && isatty(file.get()) != 0;
}

}  // namespace

bool color_wanted(ColorChoice choice, const std::string& output) {
  if (choice != ColorChoice::automatic) return choice == ColorChoice::always;
  const char* terminal = getenv("TERM");
  const bool dumb = terminal == nullptr || *terminal == '\0' || std::string_view(terminal) == "dumb";
  return !is_set("NO_COLOR") && !dumb && is_terminal(output);
}

// A static program has no part in the locales that the machine's C library is set up with.
bool locale_is_utf8() {
  const ProgramAnswer answer = run_program({system_program("locale"), "charmap"}, std::chrono::seconds(10));
  return answer.error == 0 && answer.status == 0 && answer.text == "UTF-8\n";
}

std::optional<unsigned> terminal_width_of(const std::string& output) {
  return is_terminal(output) ? std::optional(terminal_width()) : std::nullopt;
}

unsigned default_align() {
  return terminal_width() * 5 / 8;
}

unsigned terminal_width() {
  unsigned width = 80;
  const char* columns = getenv("COLUMNS");
  auto given = columns != nullptr ? parse_number(columns) : std::nullopt;
  winsize size{};
  if (given && *given > 0 && *given < 10'000)
    width = static_cast<unsigned>(*given);
  else if ((ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 || ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0) &&
           size.ws_col > 0)
    width = size.ws_col;
  return width;
}

}  // namespace rtrace::session
