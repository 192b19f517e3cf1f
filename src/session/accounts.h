// User names and their groups, from whatever the machine keeps them in: by its own programs, because rtrace
// is linked statically and a static program cannot load the C library's name services (NSS).
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace rtrace::session {

struct Account {
  std::string name, home;
  uid_t uid = 0;
  gid_t gid = 0;
};

// By name, or by number in decimal. Runs getent(1) and waits for it; throws Error where that fails.
std::optional<Account> find_account(const std::string& name_or_uid);
// All groups of a user, his own among them. Runs id(1); throws Error where that cannot tell.
std::vector<gid_t> groups_of(const std::string& name);

}  // namespace rtrace::session
