// Other programs, run for what they print.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace rtrace::session {

struct ProgramAnswer {
  std::string text{};           // what it printed, but no more than a mebibyte or so
  std::optional<int> status{};  // as of waitpid(2); nullopt where it ran on beyond the limit, and was killed
  int error = 0;                // of errno(3), where it could not be run at all
};

// Where the system has that program; the name alone where it is in none of the system's folders.
std::string system_program(const std::string& name);

// Runs words[0], a path or from PATH, without input, with its messages dropped and without LD_ variables, in
// a process group of its own and with all signals as by default, and waits until it ends.
ProgramAnswer run_program(const std::vector<std::string>& words, std::chrono::milliseconds limit);

}  // namespace rtrace::session
