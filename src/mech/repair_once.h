// One visit to a process that a dead tracer has left something in.
#pragma once

#include <sys/types.h>

#include <vector>

#include "rtrace/mech/remains.h"
#include "rtrace/mech/repair.h"

namespace rtrace::mech {

struct RepairOnce {
  Repaired repaired;
  std::vector<ForeignBytes> bytes;  // all that was found to be foreign, put back or not
  // Made meanwhile, with memory of their own: tracees of this process, at their first stop. They have what
  // their parent had.
  std::vector<pid_t> children;
};
// Waits for nothing but that threads stop. As for the rest: repair(). The last visit puts back what goes
// while all threads stand though they do not.
enum class Visit : bool { ordinary, last };
RepairOnce repair_once(pid_t pid, const std::vector<ForeignBytes>& known, bool files, Visit visit);

}  // namespace rtrace::mech
