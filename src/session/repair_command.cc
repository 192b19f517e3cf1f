#include "repair_command.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <set>
#include <span>

#include "rtrace/base/unique_fd.h"
#include "rtrace/mech/repair.h"
#include "rtrace/session/permission.h"
#include "rtrace/tracee/proc_fs.h"

namespace rtrace::session {
namespace {

std::string describe(const mech::Repaired& repaired) {
  if (repaired.nothing()) return "nothing of a tracer was found in it";
  std::string text =
      fmt::format("{} place{} in its code put back", repaired.places, repaired.places == 1 ? "" : "s");
  if (repaired.handler) text += ", SIGTRAP has its default action again";
  if (repaired.pages > 0)
    text += fmt::format(", {} mapping{} removed", repaired.pages, repaired.pages == 1 ? "" : "s");
  if (repaired.standing > 0)
    text += fmt::format("; {} could not be yet: {}", repaired.standing, repaired.left);
  else if (!repaired.left.empty())
    text += fmt::format("; pages of rtrace stay mapped in it, unused: {}", repaired.left);
  if (!repaired.kept.empty())
    text += fmt::format("; pages of rtrace stay mapped in it for good: {}", repaired.kept);
  return text;
}

// Why its memory may not be touched; empty where it may.
std::string why_not_repairable(pid_t pid) {
  const Standing standing = standing_of(pid);
  if (std::string reason = why_not_attachable(pid, standing); !reason.empty()) return reason;
  const UniqueFd memory(open(fmt::format("/proc/{}/mem", pid).c_str(), O_RDWR | O_CLOEXEC));
  return memory ? std::string() : why_seize_failed(standing, EPERM);
}

void say(const std::string& what) {
  const std::string line = "rtrace: " + what + "\n";
  (void)!::write(STDERR_FILENO, line.data(), line.size());
}

using Outcomes = std::map<pid_t, mech::RepairOutcome>;

// False where foreign code stands in one.
bool tell(const Outcomes& outcomes, const std::set<pid_t>& named, bool quiet) {
  bool all = true;
  for (const auto& [pid, outcome] : outcomes) {
    const bool stands = outcome.repaired.standing > 0;
    all &= !stands;
    // Of another's child that has ended, or that runs in its parent's memory, there is nothing to say.
    const bool told = outcome.failure.empty() && (named.contains(pid) || !outcome.repaired.nothing());
    if (told && (stands || !quiet))
      say(fmt::format("{} ({}): {}", pid, outcome.name, describe(outcome.repaired)));
  }
  return all;
}

}  // namespace

std::string describe_staying_pages(const std::vector<pid_t>& pids, const std::string& why) {
  constexpr size_t kMostNamed = 5;
  const size_t named = std::min(pids.size(), kMostNamed);
  std::string others;
  if (named < pids.size()) others = fmt::format(" and {} more", pids.size() - named);
  return fmt::format("process{} {}{}: {}, so that pages of rtrace stay mapped in {}, unused",
                     pids.size() == 1 ? "" : "es", fmt::join(std::span(pids).first(named), ", "), others, why,
                     pids.size() == 1 ? "it" : "them");
}

// The processes that were named, and whatever else the tracers that died in them have left: children.
int repair_processes(const Options& options) {
  std::map<pid_t, std::string> refused;
  std::map<pid_t, std::vector<mech::ForeignBytes>> known;
  std::set<uint64_t> sessions;
  for (pid_t pid : options.pids) {
    if (std::string reason = why_not_repairable(pid); !reason.empty()) {
      refused[pid] = reason;
      continue;
    }
    known[pid];
    sessions.merge(mech::sessions_in(pid));
  }
  const auto others = [&] { return mech::find_sessions(sessions); };
  const Outcomes outcomes = mech::repair_all(std::move(known), others, {.files = true});
  const std::set<pid_t> named(options.pids.begin(), options.pids.end());
  for (const auto& [pid, outcome] : outcomes)
    if (!outcome.failure.empty() && named.contains(pid)) refused[pid] = outcome.failure;
  for (const auto& [pid, reason] : refused) say(fmt::format("cannot repair {}: {}", pid, reason));
  const bool all = tell(outcomes, named, options.quiet > 0);
  return all && refused.empty() ? 0 : 1;
}

}  // namespace rtrace::session
