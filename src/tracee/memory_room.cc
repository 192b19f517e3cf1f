#include "rtrace/tracee/memory_room.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "rtrace/tracee/proc_fs.h"

namespace rtrace::tracee {
namespace {

std::optional<uint64_t> number(std::string_view text) {
  uint64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  return parsed.ec == std::errc() ? std::optional(value) : std::nullopt;  // "max"
}

std::optional<uint64_t> number_in(const std::string& path) {
  return number(read_file(path));
}

// A line `NAME VALUE` of memory.stat.
uint64_t statistic(std::string_view text, std::string_view name) {
  for (size_t at = 0; at < text.size();) {
    const std::string_view line = text.substr(at, text.find('\n', at) - at);
    if (line.starts_with(name) && line.substr(name.size()).starts_with(' '))
      return number(line.substr(name.size() + 1)).value_or(0);
    at += line.size() + 1;
  }
  return 0;
}

// `N:CONTROLLERS:PATH`, of the hierarchy that has the memory controller: "memory", or the unified one.
std::optional<MemoryGroup> group_of(std::string_view line, const std::string& root) {
  const size_t first = line.find(':'), second = line.find(':', first + 1);
  if (first == line.npos || second == line.npos) return std::nullopt;
  const std::string_view controllers = line.substr(first + 1, second - first - 1);
  const std::string_view path = line.substr(second + 1);
  if (controllers == "memory") return MemoryGroup{fmt::format("{}/memory{}", root, path), false};
  if (controllers.empty()) return MemoryGroup{fmt::format("{}{}", root, path), true};
  return std::nullopt;
}

}  // namespace

std::vector<MemoryGroup> memory_groups(std::string_view text, const std::string& root) {
  std::vector<MemoryGroup> groups;
  for (size_t at = 0; at < text.size();) {
    const std::string_view line = text.substr(at, text.find('\n', at) - at);
    at += line.size() + 1;
    auto group = group_of(line, root);
    if (!group) continue;
    const std::string top = group->unified ? root : root + "/memory";
    while (group->folder.ends_with('/')) group->folder.pop_back();
    for (; group->folder.size() >= top.size(); group->folder.erase(group->folder.rfind('/')))
      groups.push_back(*group);
  }
  return groups;
}

std::optional<uint64_t> room_in(const MemoryGroup& group) {
  // What version 1 has for no limit, in whole pages.
  constexpr uint64_t kNoLimit = uint64_t{1} << 62;
  const bool unified = group.unified;
  const auto limit = number_in(group.folder + (unified ? "/memory.max" : "/memory.limit_in_bytes"));
  const auto used = number_in(group.folder + (unified ? "/memory.current" : "/memory.usage_in_bytes"));
  if (!limit || !used || *limit >= kNoLimit) return std::nullopt;
  const std::string statistics = read_file(group.folder + "/memory.stat");
  const uint64_t files = statistic(statistics, unified ? "active_file" : "total_active_file") +
                         statistic(statistics, unified ? "inactive_file" : "total_inactive_file");
  const uint64_t held = *used - std::min(*used, files);
  return *limit - std::min(*limit, held);
}

std::optional<uint64_t> memory_room(pid_t pid) {
  std::optional<uint64_t> least;
  for (const MemoryGroup& group :
       memory_groups(read_file(fmt::format("/proc/{}/cgroup", pid)), "/sys/fs/cgroup"))
    if (const auto room = room_in(group)) least = std::min(least.value_or(*room), *room);
  return least;
}

}  // namespace rtrace::tracee
