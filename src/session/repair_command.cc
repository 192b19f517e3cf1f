#include "repair_command.h"

#include <unistd.h>

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
  if (!repaired.left.empty())
    text += fmt::format("; pages of rtrace stay mapped in it, unused: {}", repaired.left);
  return text;
}

// What was done, or why nothing could be.
std::string repair_one(pid_t pid, bool& failed) {
  failed = true;
  if (const std::string reason = why_not_attachable(pid, standing_of(pid)); !reason.empty())
    return fmt::format("cannot repair {}: {}", pid, reason);
  try {
    const mech::Repaired repaired = mech::repair(pid, {}, true);
    failed = false;
    return fmt::format("{} ({}): {}", pid, tracee::read_comm(pid), describe(repaired));
  } catch (const Error& error) {
    return fmt::format("cannot repair {}: {}", pid, error.what());
  }
}

}  // namespace

int repair_processes(const Options& options) {
  int status = 0;
  for (pid_t pid : options.pids) {
    bool failed = false;
    const std::string line = "rtrace: " + repair_one(pid, failed) + "\n";
    if (failed || options.quiet == 0) (void)!::write(STDERR_FILENO, line.data(), line.size());
    if (failed) status = 1;
  }
  return status;
}

}  // namespace rtrace::session
