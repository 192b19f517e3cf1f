#include "helper_program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <thread>

#include "rtrace/base/unique_fd.h"

extern char** environ;

namespace rtrace::session {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr size_t kMaxAnswer = 1 << 20;

// Nobody else may wait for it: the engine takes every child's end for a tracee's, but never while it is in
// here.
class Helper {
 public:
  Helper(std::vector<std::string> words, int output) {
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
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    // What is meant for the traced program's dynamic linker is none of its.
    std::vector<char*> kept;
    for (char** at = environ; *at != nullptr; ++at)
      if (!std::string_view(*at).starts_with("LD_")) kept.push_back(*at);
    kept.push_back(nullptr);
    error_ = posix_spawnp(&pid_, argv[0], &actions, &attributes, argv.data(), kept.data());
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

}  // namespace

std::string system_program(const std::string& name) {
  for (const char* folder : {"/usr/bin/", "/bin/"})
    if (access((folder + name).c_str(), X_OK) == 0) return folder + name;
  return name;
}

ProgramAnswer run_program(const std::vector<std::string>& words, milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {.error = errno};
  UniqueFd ours(ends[0]), theirs(ends[1]);
  Helper helper(words, theirs.get());
  theirs = UniqueFd();
  if (helper.error() != 0) return {.error = helper.error()};
  auto text = read_until(ours.get(), deadline);
  if (!text) return {};
  return {.text = std::move(*text), .status = helper.finish(deadline)};
}

}  // namespace rtrace::session
