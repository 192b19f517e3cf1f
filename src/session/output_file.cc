#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "front_end.h"
#include "rtrace/base/text.h"
#include "terminal.h"

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

// Any other status may mean what it does of grep(1).
std::string why_not_read(int status) {
  constexpr int kCannotRun = 126;  // and 127, sh(1)
  if (WIFSIGNALED(status) && WTERMSIG(status) != SIGPIPE)
    return fmt::format("was ended by SIG{}", sigabbrev_np(WTERMSIG(status)));
  if (WIFEXITED(status) && (WEXITSTATUS(status) == kCannotRun || WEXITSTATUS(status) == kCannotRun + 1))
    return "could not be run";
  return {};
}

// A FIFO is opened once somebody reads it (fifo(7)), which may be never.
UniqueFd open_output(const std::string& target, int flags) {
  UniqueFd fd(open(target.c_str(), flags | O_NONBLOCK, 0666));
  if (fd) {
    fcntl(fd.get(), F_SETFL, flags & O_APPEND);
  } else if (errno == ENXIO) {
    std::string line = "rtrace: waiting for a reader of ";
    append_printable(line, target, locale_is_utf8());
    (void)write_all(STDERR_FILENO, line + '\n');
    fd.reset(open(target.c_str(), flags, 0666));
  }
  if (!fd) throw Error::from_errno(errno, "cannot write {}", target);
  return fd;
}

}  // namespace

OutputFile::OutputFile(const std::string& target, bool append) {
  if (target.empty()) return;
  if (target == "-") {
    fd_ = STDOUT_FILENO;
    return;
  }
  if (target == "|") throw Error::make("-o |: the command is missing");
  if (target[0] == '|') {
    pipe_reader_ = start_pipe_reader(target.substr(1), owned_);
  } else {
    owned_ = open_output(target, O_WRONLY | O_CREAT | O_CLOEXEC | (append ? O_APPEND : O_TRUNC));
  }
  fd_ = owned_.get();
}

std::string OutputFile::close(const Interrupts& interrupts) {
  owned_.reset();
  const pid_t reader = std::exchange(pipe_reader_, 0);
  if (reader <= 0) return {};
  const UniqueFd end(static_cast<int>(syscall(SYS_pidfd_open, reader, 0)));  // Linux 5.3
  while (end && interrupts.fd >= 0) {
    pollfd fds[] = {{end.get(), POLLIN, 0}, {interrupts.fd, POLLIN, 0}};
    if (poll(fds, 2, -1) < 0 && errno != EINTR) break;
    if (fds[0].revents != 0) break;
    if (fds[1].revents != 0 && interrupts.told()) return {};
  }
  int status = 0;
  waitpid(reader, &status, 0);
  return why_not_read(status);
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
