#include "accounts.h"

#include "helper_program.h"
#include "rtrace/base/error.h"
#include "rtrace/base/text.h"

namespace rtrace::session {
namespace {

// A directory of users somewhere in the network may take its time.
constexpr std::chrono::seconds kPatience{10};

// The first line that it prints; empty where it knows nothing.
std::string line_of(const std::vector<std::string>& words) {
  ProgramAnswer answer = run_program(words, kPatience);
  if (answer.error != 0) throw Error::from_errno(answer.error, "cannot run {}", words[0]);
  if (!answer.status)
    throw Error::make("{} {} had no answer within {} s", words[0], words[1], kPatience.count());
  if (*answer.status != 0) return {};
  answer.text.resize(std::min(answer.text.find('\n'), answer.text.size()));
  return answer.text;
}

}  // namespace

// NAME:PASSWORD:UID:GID:GECOS:HOME:SHELL, passwd(5).
std::optional<Account> find_account(const std::string& name_or_uid) {
  const std::string line = line_of({"getent", "passwd", "--", name_or_uid});
  const auto fields = split(line, ':');
  if (fields.size() < 6) return std::nullopt;
  const auto uid = parse_number(fields[2]), gid = parse_number(fields[3]);
  if (!uid || !gid) return std::nullopt;
  return Account{std::string(fields[0]), std::string(fields[5]), static_cast<uid_t>(*uid),
                 static_cast<gid_t>(*gid)};
}

std::optional<std::vector<gid_t>> groups_of(const std::string& name) {
  std::vector<gid_t> groups;
  const std::string line = line_of({"id", "-G", "--", name});
  for (std::string_view word : split(line, ' ')) {
    const auto group = parse_number(word);
    if (!group) return std::nullopt;
    groups.push_back(static_cast<gid_t>(*group));
  }
  return groups;
}

}  // namespace rtrace::session
