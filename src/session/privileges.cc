#include "privileges.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <climits>
#include <filesystem>

#include "rtrace/base/text.h"

namespace rtrace::session {
namespace {

struct Given {
  bool user = false, group = false, capabilities = false;
  uid_t uid = 0;
  gid_t gid = 0;
  bool any() const { return user || group || capabilities; }
};

Given given_by(const std::string& file) {
  struct stat what {};
  struct statvfs where {};
  if (stat(file.c_str(), &what) != 0 || !S_ISREG(what.st_mode)) return {};
  if (statvfs(file.c_str(), &where) == 0 && (where.f_flag & ST_NOSUID) != 0) return {};
  // Without the group's right to execute it is a mark for locks (inode(7)).
  constexpr mode_t kSetGroup = S_ISGID | S_IXGRP;
  return {.user = (what.st_mode & S_ISUID) != 0,
          .group = (what.st_mode & kSetGroup) == kSetGroup,
          .capabilities = getxattr(file.c_str(), "security.capability", nullptr, 0) > 0,
          .uid = what.st_uid,
          .gid = what.st_gid};
}

}  // namespace

bool tracing_leaves_privileges() {
  static const bool leaves = [] {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3]{};
    return syscall(SYS_capget, &header, data) == 0 &&
           (data[CAP_TO_INDEX(CAP_SYS_PTRACE)].effective & CAP_TO_MASK(CAP_SYS_PTRACE)) != 0;
  }();
  return leaves;
}

bool may_gain_privileges(pid_t tid, const Memory& memory, VirtAddr name) {
  const auto read = memory.read_c_string(name, PATH_MAX);
  if (!read || !read->terminated || read->text.empty()) return false;
  const std::string file =
      fmt::format("/proc/{}/{}{}", tid, read->text.starts_with('/') ? "root" : "cwd/", read->text);
  // Who may not execute it goes on with what it was.
  return faccessat(AT_FDCWD, file.c_str(), X_OK, AT_EACCESS) == 0 && given_by(file).any();
}

static std::string withheld(const Given& given, const tracee::StatusFields& status) {
  if (given.user && given.uid != status.effective_uid) return "the set-user-ID bit";
  if (given.group && given.gid != status.effective_gid) return "the set-group-ID bit";
  if (given.capabilities && status.permitted == 0) return "the capabilities";
  return {};
}

void tell_withheld(Reporter& reporter, pid_t pid, const tracee::StatusFields& status) {
  if (tracing_leaves_privileges() || status.no_new_privileges) return;
  const std::string file = fmt::format("/proc/{}/exe", pid);
  const std::string what = withheld(given_by(file), status);
  if (what.empty()) return;
  std::error_code gone;
  reporter.say(fmt::format(
      "process {}: {} of {} gave it nothing, for it is traced without CAP_SYS_PTRACE; run rtrace as root",
      pid, what, std::filesystem::read_symlink(file, gone).string()));
}

}  // namespace rtrace::session
