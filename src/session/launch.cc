#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <vector>

#include "accounts.h"
#include "front_end.h"
#include "rtrace/base/text.h"

namespace rtrace::session {
namespace {

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

void give_back(const InheritedSignals& signals) {
  ::signal(SIGPIPE, signals.on_pipe);
  ::signal(SIGCHLD, signals.on_child);
  ::signal(SIGXFSZ, signals.on_file_size);
  sigprocmask(SIG_SETMASK, &signals.mask, nullptr);
}

// Runs in the front end's memory, which goes on beside it: allocates nothing, and writes to nothing but its
// own stack. errno is shared, too; the front end is in go() or waits for the engine meanwhile.
int run_child(void* argument) {
  const auto& order = *static_cast<const LaunchOrder*>(argument);
  close(order.gate[1]);
  close(order.failure[0]);
  char byte = 0;
  if (read(order.gate[0], &byte, 1) != 1) return 127;  // the front end is gone, or gave up
  int error_number = order.identity ? become(*order.identity) : 0;
  // Yama (Documentation/admin-guide/LSM/Yama.rst): only a named process may trace one that is no child of it.
  prctl(PR_SET_PTRACER, order.tracer, 0, 0, 0);
  if (error_number == 0) {
    give_back(order.signals);
    execv(order.path.c_str(), order.argv.data());
    error_number = errno;
    // A script without #!, as execvp(3) and the shells run it.
    if (error_number == ENOEXEC) execv("/bin/sh", order.shell_argv.data());
  }
  (void)!write(order.failure[1], &error_number, sizeof error_number);
  return 127;
}

}  // namespace

Launch::Launch(const std::vector<std::string>& command, const std::string& user,
               const InheritedSignals& signals, pid_t tracer)
    : order_{.path = find_command(command[0]), .signals = signals, .tracer = tracer} {
  if (!user.empty()) order_.identity = find_identity(user);
  auto as_argument = [](const std::string& word) { return const_cast<char*>(word.c_str()); };
  order_.shell_argv = {const_cast<char*>("sh"), as_argument(order_.path)};
  for (const std::string& word : command) order_.argv.push_back(as_argument(word));
  order_.argv.push_back(nullptr);
  order_.shell_argv.insert(order_.shell_argv.end(), order_.argv.begin() + 1, order_.argv.end());
  if (pipe2(order_.gate, O_CLOEXEC) != 0 || pipe2(order_.failure, O_CLOEXEC) != 0)
    throw Error::from_errno(errno, "pipe");
  // Not unmapped: a child that was told to give up may still be on it. With a section of its own it does not
  // lie between what else is used at the start (src/first_use.ld).
  [[gnu::section(".bss.child_stack")]] alignas(16) static std::array<std::byte, 65536> stack;
  // As posix_spawn(3) does, but without waiting for the exec: copying our page tables, and each page that we
  // write to afterwards, would take longer than all else here.
  pid_ = clone(run_child, stack.data() + stack.size(), CLONE_VM | SIGCHLD, &order_);
  if (pid_ < 0) throw Error::from_errno(errno, "clone");
  close(order_.gate[0]);
  close(order_.failure[1]);
  gate_.reset(order_.gate[1]);
  failure_.reset(order_.failure[0]);
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
