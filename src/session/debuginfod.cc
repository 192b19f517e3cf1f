#include "debuginfod.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <thread>

#include "rtrace/base/error.h"
#include "rtrace/base/text.h"
#include "rtrace/base/unique_fd.h"

extern char** environ;

namespace rtrace::session {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr const char* kProgram = "debuginfod-find";
constexpr milliseconds kLongest{10'000};
constexpr size_t kMaxAnswer = 4096;

milliseconds limit() {
  const char* text = getenv("DEBUGINFOD_TIMEOUT");
  const auto seconds = text != nullptr ? parse_number(text) : std::nullopt;
  if (!seconds || *seconds == 0 || *seconds > 10) return kLongest;
  return milliseconds(*seconds * 1000);
}

// A program of ours that nobody else may wait for: the engine takes every child's end for a tracee's, but
// never while it is in here.
class Helper {
 public:
  Helper(const std::string& id, int output) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    // A group of its own: what it starts ends with it.
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    std::string program = kProgram, what = "debuginfo", which = id;
    char* words[] = {program.data(), what.data(), which.data(), nullptr};
    error_ = posix_spawnp(&pid_, kProgram, &actions, &attributes, words, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
  }
  ~Helper() {
    if (error_ != 0 || ended_) return;
    kill(-pid_, SIGKILL);
    while (waitpid(pid_, nullptr, __WALL) < 0 && errno == EINTR) {
    }
  }
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;

  int error() const { return error_; }
  // Its status; nullopt where it runs on beyond the deadline.
  std::optional<int> finish(Clock::time_point deadline) {
    int status = -1;
    while (waitpid(pid_, &status, __WALL | WNOHANG) == 0) {
      if (Clock::now() >= deadline) return std::nullopt;
      std::this_thread::sleep_for(milliseconds(1));
    }
    ended_ = true;
    return status;
  }

 private:
  pid_t pid_ = -1;
  int error_ = 0;
  bool ended_ = false;
};

// What it writes until it ends; nullopt where that takes too long.
std::optional<std::string> read_until(int fd, Clock::time_point deadline) {
  std::string text;
  char chunk[512];
  while (text.size() < kMaxAnswer) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now()).count();
    pollfd ready{fd, POLLIN, 0};
    if (left <= 0) return std::nullopt;
    const int polled = poll(&ready, 1, static_cast<int>(left));
    if (polled < 0 && errno == EINTR) continue;
    if (polled <= 0) return std::nullopt;
    const ssize_t got = read(fd, chunk, sizeof chunk);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(chunk, static_cast<size_t>(got));
  }
  return text;
}

std::string hex_of(std::span<const std::byte> build_id) {
  std::string text;
  for (std::byte byte : build_id) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

Debuginfod::Answer ask_program(const std::string& id, milliseconds left) {
  const auto deadline = Clock::now() + left;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {{}, fmt::format("no pipe to {}", kProgram)};
  UniqueFd ours(ends[0]), theirs(ends[1]);
  Helper helper(id, theirs.get());
  theirs = UniqueFd();
  if (helper.error() != 0) return {{}, fmt::format("{}: {}", kProgram, strerror(helper.error()))};
  auto text = read_until(ours.get(), deadline);
  const auto status = text ? helper.finish(deadline) : std::nullopt;
  if (!status)
    return {{}, fmt::format("{} had no answer within {} s", kProgram, (left.count() + 999) / 1000)};
  text->resize(std::min(text->size(), text->find('\n')));
  if (*status != 0 || text->empty() || (*text)[0] != '/')
    return {{}, "debuginfod knows no debug file for it"};
  return {*text, {}};
}

}  // namespace

Debuginfod::Answer Debuginfod::ask(std::span<const std::byte> build_id) {
  const char* servers = getenv("DEBUGINFOD_URLS");
  if (servers == nullptr || *servers == 0 || build_id.empty() || build_id.size() > 64) return {};
  if (!left_) left_ = limit();
  if (left_->count() <= 0) return {{}, "debuginfod took too long before, and is not asked again"};
  const auto begin = Clock::now();
  Answer answer = ask_program(hex_of(build_id), *left_);
  *left_ -= std::chrono::duration_cast<milliseconds>(Clock::now() - begin);
  return answer;
}

}  // namespace rtrace::session
