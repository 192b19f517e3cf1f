// Whom there is to repair: what the dead tracer's table says, and whose memory holds pages of its session.
#include <dirent.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "rtrace/base/error.h"
#include "rtrace/mech/repair.h"
#include "rtrace/tracee/proc_fs.h"

namespace rtrace::mech {
std::vector<std::pair<pid_t, std::vector<ForeignBytes>>> known_bytes(const PatchTable& table) {
  std::map<pid_t, std::vector<ForeignBytes>> by_process;
  const uint64_t used = std::min<uint64_t>(table.used, PatchTable::kCapacity);
  for (uint64_t i = 0; i < used; ++i) {
    const Patch& patch = table.patches[i];
    if (patch.live == 0 || patch.length == 0 || patch.length > Patch::kMaxLength) continue;
    const auto original = std::as_bytes(std::span(patch.original, patch.length));
    const auto written = std::as_bytes(std::span(patch.written, patch.length));
    by_process[patch.pid].push_back(
        {VirtAddr{patch.address}, {original.begin(), original.end()}, {written.begin(), written.end()}});
  }
  return {by_process.begin(), by_process.end()};
}

std::vector<pid_t> find_sessions(const std::set<uint64_t>& sessions) {
  std::vector<pid_t> found;
  if (sessions.empty()) return found;
  DIR* folder = opendir("/proc");
  while (const dirent* entry = folder != nullptr ? readdir(folder) : nullptr) {
    pid_t pid = 0;
    const std::string_view name = entry->d_name;
    if (std::from_chars(name.data(), name.data() + name.size(), pid).ptr != name.data() + name.size())
      continue;
    const auto maps = tracee::read_maps(pid);
    if (maps.empty()) continue;
    try {
      const Remains remains = find_pages(tracee::ProcessMemory(pid), maps);
      if (std::any_of(remains.pages.begin(), remains.pages.end(),
                      [&](const auto& page) { return sessions.contains(page.session); }))
        found.push_back(pid);
    } catch (const std::exception&) {
      continue;  // it ended, or is not ours to look into
    }
  }
  if (folder != nullptr) closedir(folder);
  return found;
}

std::set<uint64_t> sessions_in(pid_t pid) {
  std::set<uint64_t> sessions;
  try {
    for (const auto& page : find_pages(tracee::ProcessMemory(pid), tracee::read_maps(pid)).pages)
      sessions.insert(page.session);
  } catch (const Error&) {
    return {};
  }
  return sessions;
}

}  // namespace rtrace::mech
