// SDT semaphores: uint16 counters in an object's data by which a program knows that somebody traces its
// probes. Others may trace too, so they are added to and subtracted from, never set.
//
// That one is raised is written down in one place: in the process itself, in the foothold's table, so that
// whoever finds the table after our death can lower it; or, where there is no foothold (seccomp), in the
// ledger. It is written down after the raise and crossed out before the lowering: a tracer that dies between
// leaves a program that takes the trouble to fill in its probes' arguments, and no other tracer's count too
// low.
#pragma once

#include <unordered_map>

#include "rtrace/base/address.h"
#include "rtrace/mech/foothold.h"
#include "rtrace/mech/patch_table.h"
#include "rtrace/tracee/process_memory.h"

namespace rtrace::mech {

class Semaphores {
 public:
  // False where it is not writable. Nothing happens where it is raised already.
  bool raise(VirtAddr semaphore, const tracee::ProcessMemory& memory, Foothold& foothold,
             PatchLedger& ledger);
  // All of them.
  void lower(const tracee::ProcessMemory& memory, Foothold& foothold, PatchLedger& ledger);
  // In the memory of a fork child, which began as a copy of ours.
  void lower_in(const tracee::ProcessMemory& child, const Foothold& foothold) const;
  // What is unmapped needs no lowering.
  void forget(Range range, const tracee::ProcessMemory& memory, Foothold& foothold, PatchLedger& ledger);
  void forget_all(PatchLedger& ledger);
  // For a followed fork child.
  Semaphores clone_for(pid_t child, PatchLedger& ledger) const;

 private:
  std::unordered_map<VirtAddr, PatchLedger::Index> raised_;  // kNone: it stands in the foothold's table
};

// One less, where it is not zero.
bool lower_semaphore(const tracee::ProcessMemory& memory, VirtAddr semaphore);

}  // namespace rtrace::mech
