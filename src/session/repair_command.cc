#include "repair_command.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <set>

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

// What was done, or why nothing could be.
std::string repair_one(pid_t pid, bool& failed) {
  failed = true;
  if (const std::string reason = why_not_repairable(pid); !reason.empty())
    return fmt::format("cannot repair {}: {}", pid, reason);
  try {
    const mech::Repaired repaired = mech::repair(pid, {}, true);
    failed = repaired.standing > 0;
    return fmt::format("{} ({}): {}", pid, tracee::read_comm(pid), describe(repaired));
  } catch (const Error& error) {
    return fmt::format("cannot repair {}: {}", pid, error.what());
  }
}

}  // namespace

// The processes that were named, and whatever else the tracers that died in them have left: children.
int repair_processes(const Options& options) {
  int status = 0;
  std::set<pid_t> named(options.pids.begin(), options.pids.end()), others;
  for (pid_t pid : named)
    for (pid_t relative : mech::find_relatives(pid))
      if (!named.contains(relative)) others.insert(relative);
  const auto say = [&](const std::string& what) {
    const std::string line = "rtrace: " + what + "\n";
    (void)!::write(STDERR_FILENO, line.data(), line.size());
  };
  for (pid_t pid : named) {
    bool failed = false;
    const std::string what = repair_one(pid, failed);
    if (failed || options.quiet == 0) say(what);
    if (failed) status = 1;
  }
  for (pid_t pid : others) {
    bool failed = false;
    const std::string what = repair_one(pid, failed);
    if (failed || options.quiet > 0) continue;  // it has ended, or it runs in its parent's memory
    say(what);
  }
  return status;
}

}  // namespace rtrace::session
