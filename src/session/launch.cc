#include <fcntl.h>
#include <grp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <vector>

#include "accounts.h"
#include "front_end.h"
#include "rtrace/base/text.h"

namespace rtrace::session {
namespace {

struct Identity {
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups{};  // beside it
};

Identity identity_of(const Account& account) {
  return {account.uid, account.gid, groups_of(account.name)};
}

// UID:GID, which need not have a name. The user's other groups stay, where he has some and they can be told.
Identity identity_of(uid_t uid, gid_t gid) {
  Identity identity{uid, gid};
  try {
    if (const auto account = find_account(std::to_string(uid))) {
      identity.groups = groups_of(account->name);
      std::erase(identity.groups, account->gid);
      identity.groups.push_back(gid);
    }
  } catch (const Error&) {
    identity.groups.clear();
  }
  return identity;
}

Identity find_identity(const std::string& user) {
  constexpr uint64_t kNone = ~uint32_t{0};
  const size_t colon = user.find(':');
  const auto uid = parse_number(user.substr(0, colon));
  if (colon != std::string::npos && uid && *uid < kNone) {
    const auto gid = parse_number(user.substr(colon + 1));
    if (!gid || *gid >= kNone) throw Error::make("-u {}: '{}' is no group id", user, user.substr(colon + 1));
    return identity_of(static_cast<uid_t>(*uid), static_cast<gid_t>(*gid));
  }
  if (const auto account = find_account(user)) return identity_of(*account);
  if (!uid || *uid >= kNone) throw Error::make("-u {}: no such user", user);
  if (const auto account = find_account(std::to_string(*uid))) return identity_of(*account);
  return {static_cast<uid_t>(*uid), static_cast<gid_t>(*uid)};
}

// As execvp(3) would find it, but before anything is forked, so that a mistyped name is one plain message.
std::string find_command(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const char* path = getenv("PATH");
  for (std::string_view folder : split(path != nullptr ? path : "/bin:/usr/bin", ':')) {
    std::string candidate = folder.empty() ? name : fmt::format("{}/{}", folder, name);
    struct stat status {};
    if (stat(candidate.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
        access(candidate.c_str(), X_OK) == 0)
      return candidate;
  }
  throw Error::make("cannot run {}: not found in PATH", name);
}

int become(const Identity& identity) {
  if (setgroups(identity.groups.size(), identity.groups.data()) != 0 || setgid(identity.gid) != 0 ||
      setuid(identity.uid) != 0)
    return errno;
  return 0;
}

void default_signals() {
  sigset_t none;
  sigemptyset(&none);
  for (int signal : {SIGPIPE, SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGCHLD}) ::signal(signal, SIG_DFL);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

[[noreturn]] void child(const std::string& path, std::vector<char*>& argv,
                        const std::optional<Identity>& identity, pid_t tracer, int gate, int failure) {
  char byte = 0;
  if (read(gate, &byte, 1) != 1) _exit(127);  // the front end is gone, or gave up
  int error_number = identity ? become(*identity) : 0;
  // Yama (Documentation/admin-guide/LSM/Yama.rst): only a named process may trace one that is no child of it.
  prctl(PR_SET_PTRACER, tracer, 0, 0, 0);
  if (error_number == 0) {
    default_signals();
    execv(path.c_str(), argv.data());
    error_number = errno;
    if (error_number == ENOEXEC) {
      // A script without #!, as execvp(3) and the shells run it.
      std::vector<char*> words = {const_cast<char*>("sh"), const_cast<char*>(path.c_str())};
      words.insert(words.end(), argv.begin() + 1, argv.end());
      execv("/bin/sh", words.data());
    }
  }
  (void)!write(failure, &error_number, sizeof error_number);
  _exit(127);
}

}  // namespace

Launch::Launch(const std::vector<std::string>& command, const std::string& user, pid_t tracer) {
  const std::string path = find_command(command[0]);
  std::optional<Identity> identity;
  if (!user.empty()) identity = find_identity(user);
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  int gate[2], failure[2];
  if (pipe2(gate, O_CLOEXEC) != 0 || pipe2(failure, O_CLOEXEC) != 0) throw Error::from_errno(errno, "pipe");
  pid_ = fork();
  if (pid_ < 0) throw Error::from_errno(errno, "fork");
  if (pid_ == 0) {
    close(gate[1]);
    close(failure[0]);
    child(path, argv, identity, tracer, gate[0], failure[1]);
  }
  close(gate[0]);
  close(failure[1]);
  gate_.reset(gate[1]);
  failure_.reset(failure[0]);
}

int Launch::go() {
  const char byte = 1;
  (void)!write(gate_.get(), &byte, 1);
  gate_.reset();
  int error_number = 0;
  ssize_t got = 0;
  do {
    got = read(failure_.get(), &error_number, sizeof error_number);
  } while (got < 0 && errno == EINTR);
  failure_.reset();
  return got == sizeof error_number ? error_number : 0;
}

}  // namespace rtrace::session
