// The breakpoint sites of one address space (shared by a process's threads, and by a vfork child until it
// execs).
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "rtrace/arch/regs.h"
#include "rtrace/base/address.h"
#include "rtrace/mech/breakpoint_site.h"
#include "rtrace/mech/foothold.h"
#include "rtrace/mech/install.h"
#include "rtrace/mech/semaphores.h"
#include "rtrace/tracee/proc_fs.h"
#include "rtrace/tracee/process_memory.h"

namespace rtrace::mech {

class AddressSpace {
 public:
  // Throws Error where the memory cannot be opened, or one more that stays open would leave too few
  // descriptors to undo what is done in the others.
  AddressSpace(pid_t pid, PatchLedger& ledger);
  ~AddressSpace();
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;

  const tracee::ProcessMemory& memory() const { return memory_; }
  pid_t pid() const { return memory_.pid(); }

  // Maps room for out-of-line copies of `sites` sites near `near`, if there is not enough yet. `stopped` is a
  // task in a consumed ptrace-stop, about to run user code at the registers it shows. `slack` is executable,
  // private memory that nothing runs (mech::find_slack()), borrowed for the
  // first remote call; `when_begun` as in Foothold::Means. Answers what went wrong, in words; empty if
  // nothing did.
  std::string make_room(Range near, size_t sites, pid_t stopped, const std::vector<tracee::MapsEntry>& maps,
                        Range slack, std::function<void(tracee::RemoteCall&)> when_begun = {});
  bool has_room(VirtAddr near, size_t sites) const;

  // Nothing is written any more: the process has begun another program. What was read of it in the middle of
  // that may be the new one's memory already, which another AddressSpace writes to.
  void abandon() { abandoned_ = true; }
  bool abandoned() const { return abandoned_; }
  // Whether the bridging handler stands in the process now, for the default action: Patch::stands_in of its
  // sites; or in front of the program's own handler.
  void handler_stands(bool stands, bool screens = false);
  bool handler_screens() const { return handler_screens_; }

  // Puts an int3 at the first byte of the instruction at `address`, or finds the one that is there. The
  // caller has seen to it that the address lies in a private, file-backed, executable mapping and that every
  // task of the address space is seized; none needs to be stopped. `expected`, where not empty, are the
  // file's bytes: memory must equal them.
  InstallAnswer install(VirtAddr address, std::span<const std::byte> expected);
  // The same for several, with fewer writes. One answer for each, in their order.
  struct Wanted {
    VirtAddr address;
    std::span<const std::byte> expected;
    agent::SignalCall signal_call{};  // that it watches
    bool alone = false;               // of BreakpointSite
    bool begins = false;
  };
  std::vector<InstallAnswer> install_together(std::span<const Wanted> wanted);

  // The site whose int3 a thread with these registers has just met, or nullptr.
  BreakpointSite* hit(const arch::Regs& regs);
  BreakpointSite* find(VirtAddr address);

  // Sets the registers of a thread that met the site so that it runs on as if there were no int3. False where
  // a word that emulation needs cannot be read: then the thread is put back onto the site.
  bool pass(const BreakpointSite& site, arch::Regs& regs) const;

  // Takes a thread that stands inside a copy, or behind an int3 that it has not passed, back to where it
  // would be in its own code. True where the registers were changed. `replayed` is the site that such a
  // thread will meet again.
  struct Translation {
    bool changed = false;
    const BreakpointSite* replayed = nullptr;
  };
  Translation to_program(arch::Regs& regs) const;
  // The displaced instruction has run: the thread stands at the copy's jump back, or past the copy's own
  // work.
  bool is_behind(const arch::Regs& regs) const;
  bool in_copy(VirtAddr pc) const { return foothold_.contains(pc); }

  // An object has left the link map: its sites are gone with it, and nothing is written. Where an int3 stands
  // all the same another object may have taken its place before we looked, and got what was meant for the
  // first: there the site stays, without an owner, a stray.
  void forget(Range range);
  std::vector<VirtAddr> strays() const;
  // Whether this is the code there, as far as it is one instruction.
  bool is_code(VirtAddr address, std::span<const std::byte> code) const;
  // A stray goes. The caller knows what is there: the own first byte of the code that its int3 stands in.
  void take_out(VirtAddr address, std::byte own);
  // Or that none stands any more.
  void drop_gone_strays();
  void forget_all();
  // Whether a thread with these registers has met an int3 that take_out() has removed since: its pc goes back
  // by one.
  bool met_removed(const arch::Regs& regs) const;

  // Puts original bytes back, in this memory or in that of a fork child with a copy of it. Only where an int3
  // of ours is still there. Tasks may run; those that watch what the program does with SIGTRAP go last, for
  // whoever meets the others when we have died needs it open and the handler raised, and must stay until none
  // runs: of them what asks for its action at the very end, for that is done where masks have been changed
  // (before exec, by some). The sites stay known: a thread may still report a hit from before.
  enum class Sites : bool { all, but_signal_calls };
  void restore(const tracee::ProcessMemory& memory, Sites which = Sites::all) const;
  // An SDT semaphore goes one up while we trace, and down again with lower_semaphores(). False where it
  // cannot be written. The caller has seen to it that it lies in a private, writable mapping of a file.
  bool raise_semaphore(VirtAddr semaphore);
  void lower_semaphores();
  // In the memory of a fork child that is let go of.
  void lower_semaphores_of(const tracee::ProcessMemory& child) const;
  // Foothold::complete_child(), by a thread of a followed fork child that stands. False where it cannot be.
  bool complete_child(const tracee::ProcessMemory& child, pid_t stopped) const;
  // For a followed fork child: the same sites and copies in its own memory, published under its own pid.
  // Throws Error where it was forked before our pages were there.
  std::unique_ptr<AddressSpace> clone_for(pid_t child) const;
  // Our pages in it.
  const Foothold& foothold() const { return foothold_; }
  Foothold& foothold() { return foothold_; }

  // The program's own code there, with what sites displaced; shorter where memory ends.
  std::vector<std::byte> own_code(VirtAddr address, size_t size) const;
  // Whether sites stand there besides the one at `entry`.
  bool has_others_in(Range range, VirtAddr entry) const;
  // Takes a site out, for a jump that comes in its place. Every task is stopped, and none stands in its copy.
  void give_up(VirtAddr address);
  // A probe has no purpose there any more; where nothing else has, the site is given up.
  void remove_probe(VirtAddr site, const BreakpointSite::Owner& owner);
  // The same for those of a caller that is gone; the sites stay, for threads run.
  void remove_probes_of(elf::ObjectId caller);
  // The same for all that serve returns only, but those at which one is awaited. `standing`: the tasks' pcs.
  void give_up_returns(const std::unordered_set<VirtAddr>& awaited, std::span<const VirtAddr> standing);
  // Unmaps them. No thread may stand in one; `stopped` and `slack` as for make_room(). Answers what went
  // wrong; then the pages stay, inert. Where they were stays known, for children that were forked meanwhile.
  std::string unmap_copies(pid_t stopped, Range slack);
  // Where they stay, and none of its sites stands: what the handler knew.
  void forget_table() const;
  // The same in the memory of a fork child that is let go of.
  std::string unmap_copies_of(const tracee::ProcessMemory& child, pid_t stopped, Range slack) const;
  // What Foothold::part() does, in the memory of a fork child.
  std::string part_copies_of(const tracee::ProcessMemory& child, pid_t stopped, Range slack) const;
  // What Foothold::part_for_good() does.
  std::string part_copies(pid_t stopped, Range slack, const Foothold::Pieces& kept);
  std::string unmap_rings(pid_t stopped, Range slack);

  // The sites that watch masks alone, at instructions: whether their int3s are to stand. Tasks may run.
  void rest_mask_syscalls(bool rests);

  size_t size() const { return sites_.size(); }

 private:
  void forget_site(const BreakpointSite& site);
  // --- address_space_install.cc
  struct Prepared {
    size_t index = 0;   // of what is wanted
    size_t before = 0;  // so many with it come first
    std::unique_ptr<BreakpointSite> site{};
    std::vector<std::byte> copy{};  // its code
    uint64_t reserved = 0;          // bytes, for that
  };
  void serve(BreakpointSite& site, const Wanted& wanted);
  std::vector<std::vector<std::byte>> own_codes(std::span<const Wanted> wanted) const;
  std::optional<InstallAnswer> prepare(Prepared& prepared, const Wanted& wanted,
                                       std::span<const std::byte> code);
  std::optional<Declined> prepare_copy(Prepared& prepared, BreakpointSite& site,
                                       std::span<const std::byte> code);
  void write_copies(std::span<Prepared> prepared) const;
  void write(std::span<Prepared> prepared, std::span<InstallAnswer> answers);
  // ---
  void show_own(VirtAddr address, std::span<std::byte> code) const;
  std::vector<const BreakpointSite*> standing_in(const tracee::ProcessMemory& memory) const;
  void complete_from(const AddressSpace& parent);

  tracee::ProcessMemory memory_;
  PatchLedger& ledger_;
  Foothold foothold_;
  bool abandoned_ = false;
  bool handler_stands_ = false, handler_screens_ = false;
  Semaphores semaphores_;
  std::unordered_map<VirtAddr, std::unique_ptr<BreakpointSite>> sites_;
  std::unordered_set<VirtAddr> removed_;                        // their int3s, and nothing stands there since
  std::unordered_map<VirtAddr, const BreakpointSite*> copies_;  // by 16-byte slot of the copy
};

}  // namespace rtrace::mech
