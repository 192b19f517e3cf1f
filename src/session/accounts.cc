#include "accounts.h"

#include <algorithm>
#include <limits>

#include "helper_program.h"
#include "rtrace/base/error.h"
#include "rtrace/base/text.h"

namespace rtrace::session {
namespace {

// A directory of users somewhere in the network may take its time.
constexpr std::chrono::seconds kPatience{10};
constexpr int kUnknown = 2 << 8;  // getent(1): the key is not in the database; as of waitpid(2)

// The line that it prints; empty where it knows nothing.
std::string line_of(const std::string& program, std::vector<std::string> words) {
  words.insert(words.begin(), system_program(program));
  ProgramAnswer answer = run_program(words, kPatience);
  if (answer.error != 0) throw Error::from_errno(answer.error, "cannot run {}", program);
  if (!answer.status) throw Error::make("{} had no answer within {} s", program, kPatience.count());
  if (*answer.status == kUnknown) return {};
  const size_t end = answer.text.find('\n');
  if (*answer.status != 0 || end == std::string::npos)
    throw Error::make("{} failed: it ended with status {:#x}", program, *answer.status);
  answer.text.resize(end);
  return answer.text;
}

// uid_t and gid_t have 32 bits, of which -1 is none.
std::optional<uint32_t> parse_id(std::string_view word) {
  const auto number = parse_number(word);
  if (!number || *number >= std::numeric_limits<uint32_t>::max()) return std::nullopt;
  return static_cast<uint32_t>(*number);
}

}  // namespace

// NAME:PASSWORD:UID:GID:GECOS:HOME:SHELL, passwd(5). getent(1) takes for a number what begins like one.
std::optional<Account> find_account(const std::string& name_or_uid) {
  const std::string line = line_of("getent", {"passwd", "--", name_or_uid});
  const auto fields = split(line, ':');
  if (fields.size() < 6 || (fields[0] != name_or_uid && fields[2] != name_or_uid)) return std::nullopt;
  const auto uid = parse_id(fields[2]), gid = parse_id(fields[3]);
  if (!uid || !gid) return std::nullopt;
  return Account{std::string(fields[0]), std::string(fields[5]), *uid, *gid};
}

std::vector<gid_t> groups_of(const std::string& name) {
  std::vector<gid_t> groups;
  const std::string line = line_of("id", {"-G", "--", name});
  for (std::string_view word : split(line, ' ')) {
    const auto group = parse_id(word);
    if (!group) throw Error::make("id -G {}: '{}' is no group id", name, word);
    groups.push_back(*group);
  }
  return groups;
}

}  // namespace rtrace::session
