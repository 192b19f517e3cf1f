// Debug files from debuginfod servers, where the user's environment names some.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace rtrace::session {

// Asks the program debuginfod-find(1) for the debug file of a build-id: the path of the file that it has
// fetched or had in its cache, or why there is none. Does nothing where DEBUGINFOD_URLS is empty or not set.
// Waits for as long as DEBUGINFOD_TIMEOUT says, at the most ten seconds, and in one run of rtrace no longer
// than that in all.
class Debuginfod {
 public:
  struct Answer {
    std::string path;
    std::string reason;  // empty too where nobody was asked
  };
  Answer ask(std::span<const std::byte> build_id);
  // Whether the user's environment names servers.
  static bool has_servers();

 private:
  std::optional<std::chrono::milliseconds> left_;  // of the time that may be spent
};

}  // namespace rtrace::session
