// Putting a process right that a tracer of ours has left by dying.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rtrace/mech/patch_table.h"
#include "rtrace/mech/remains.h"

namespace rtrace::mech {

struct Repaired {
  size_t places = 0;     // in the code, that hold the program's own bytes again
  size_t standing = 0;   // that could not be put back yet; with `left`
  bool handler = false;  // the bridging handler was taken out
  size_t pages = 0;      // mappings of ours that were unmapped
  std::string left;      // why those, or mappings, stay, inert; empty where none does
  std::string kept;      // why some stay for good, and are no remains any more
  bool passing = false;  // those who need what is left run, and are elsewhere when they have
  bool inert = false;    // what is left are pages alone, for calls that have not returned
  // Of those one that sleeps in a system call, with this stack pointer. Each visit would make it wait anew.
  struct Waiter {
    pid_t tid = 0;
    VirtAddr sp;
  };
  std::optional<Waiter> waiter;
  bool nothing() const { return places == 0 && !handler && pages == 0 && left.empty() && kept.empty(); }
};

// Stops the process for a moment, and lets it go as if nothing had been. `known` are bytes that its own
// memory does not tell of; with `files` its code is compared with its files too. Children that it makes in
// that moment are put right as well. Throws Error where it cannot be traced: no such process, another tracer,
// no permission.
// With Until::inert pages that stay are not waited for.
enum class Until : bool { nothing_is_left, inert };
struct RepairWish {
  bool files = false;
  // For what is in the way of unmapping; a few times as long where it only has to run, and, on a machine so
  // busy that a look takes seconds, until there were a few looks, at most 30 seconds.
  std::chrono::milliseconds patience = std::chrono::seconds(3);
  Until until = Until::nothing_is_left;
};
Repaired repair(pid_t pid, const std::vector<ForeignBytes>& known, const RepairWish& wish);

// Several, each with what is known of it. `find_more` is asked for others until it finds none that had
// foreign code: children may be forked all the while. The code of all is put right before anything is waited
// for, and all together are waited for no longer than one.
struct RepairOutcome {
  std::string name;  // as /proc/PID/comm had it when it was found
  Repaired repaired;
  std::string failure;  // why it could not be traced; then nothing else is said
};
std::map<pid_t, RepairOutcome> repair_all(std::map<pid_t, std::vector<ForeignBytes>> known,
                                          const std::function<std::vector<pid_t>()>& find_more,
                                          const RepairWish& wish);

// What a dead engine's table says of each process.
std::vector<std::pair<pid_t, std::vector<ForeignBytes>>> known_bytes(const PatchTable& table);

// The sessions whose mappings this process holds; none where it is gone, or not ours to look into.
std::set<uint64_t> sessions_in(pid_t pid);
// Processes that hold a mapping of one of them: children too that nobody was told of.
std::vector<pid_t> find_sessions(const std::set<uint64_t>& sessions);

}  // namespace rtrace::mech
