// Other programs, run for what they print.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace rtrace::session {

struct ProgramAnswer {
  std::string text{};           // the first 4096 bytes or more of what it printed
  std::optional<int> status{};  // as of waitpid(2); nullopt where it ran on beyond the limit, and was killed
  int error = 0;                // of errno(3), where it could not be run at all
};

// Runs words[0] from PATH, without input and with its messages dropped, in a process group of its own and
// with all signals as by default, and waits until it ends.
ProgramAnswer run_program(const std::vector<std::string>& words, std::chrono::milliseconds limit);

}  // namespace rtrace::session
