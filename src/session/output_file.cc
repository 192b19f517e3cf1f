#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>

#include <cerrno>

#include "front_end.h"

namespace rtrace::session {
namespace {

// `sh -c command` with its input from us.
pid_t start_pipe_reader(const std::string& command, UniqueFd& write_end) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Error::from_errno(errno, "-o |{}", command);
  const pid_t pid = fork();
  if (pid < 0) throw Error::from_errno(errno, "-o |{}", command);
  if (pid == 0) {
    dup2(ends[0], STDIN_FILENO);
    execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    _exit(127);
  }
  close(ends[0]);
  write_end.reset(ends[1]);
  return pid;
}

}  // namespace

OutputFile::OutputFile(const std::string& target, bool append) {
  if (target.empty()) return;
  if (target == "-") {
    fd_ = STDOUT_FILENO;
    return;
  }
  if (target[0] == '|') {
    pipe_reader_ = start_pipe_reader(target.substr(1), owned_);
  } else {
    owned_.reset(open(target.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | (append ? O_APPEND : O_TRUNC), 0666));
    if (!owned_) throw Error::from_errno(errno, "cannot write {}", target);
  }
  fd_ = owned_.get();
}

OutputFile::~OutputFile() {
  owned_.reset();
  if (pipe_reader_ > 0) waitpid(pipe_reader_, nullptr, 0);
}

int write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::write(fd, bytes.data(), bytes.size());
    if (done >= 0) {
      bytes.remove_prefix(static_cast<size_t>(done));
      continue;
    }
    // The description is shared with whoever started us, and they may have made it non-blocking.
    pollfd room{fd, POLLOUT, 0};
    if (errno == EAGAIN && poll(&room, 1, -1) >= 0) continue;
    if (errno != EINTR) return errno;
  }
  return 0;
}

bool OutputFile::write(std::string_view bytes) {
  error_number_ = write_all(fd_, bytes);
  return error_number_ == 0;
}

}  // namespace rtrace::session
