// Our pages inside one tracee: the blob, the out-of-line copies, and the table by which the blob's handler
// finds a copy when no tracer lives. Each begins with an agent::MappingHeader.
//
// A value: a fork child has the same pages at the same places, in memory of its own.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rtrace/agent/abi.h"
#include "rtrace/base/address.h"
#include "rtrace/mech/code_arena.h"
#include "rtrace/mech/patch_table.h"
#include "rtrace/tracee/proc_fs.h"
#include "rtrace/tracee/process_memory.h"
#include "rtrace/tracee/remote_call.h"

namespace rtrace::agent {
struct Control;
}

namespace rtrace::mech {

class Foothold {
 public:
  explicit Foothold(uint64_t session) : session_(session) {}

  bool exists() const { return mapped_; }
  // They do, or did: a child may have been forked when they did.
  bool existed() const { return static_cast<bool>(blob_); }
  // In the blob: `syscall; rt_sigreturn` for remote calls, the SIGTRAP handler, and its return.
  VirtAddr gadget() const { return existed() ? blob_ + offsets().gadget : VirtAddr{}; }
  VirtAddr bridge() const { return blob_ + offsets().bridge; }
  VirtAddr restorer() const { return blob_ + offsets().restorer; }
  // The handler that stands in front of one of the program's own, and where that one is noted.
  VirtAddr screen() const { return blob_ + offsets().screen; }
  VirtAddr own_handler() const { return blob_ + offsetof(agent::Blob, own_handler); }
  // Room for a remote call's frame.
  Range frame_area() const { return frame_area_; }

  VirtAddr enter() const { return blob_ + offsets().enter; }
  VirtAddr leave_call() const { return blob_ + offsets().leave; }
  VirtAddr quick_enter() const { return blob_ + offsets().quick_enter; }
  VirtAddr quick_leave() const { return blob_ + offsets().quick_leave; }

  bool has_room(VirtAddr near, size_t sites) const;
  // Of these, in the table alone. False where there is none.
  bool table_has_room(size_t sites) const;
  // What mapping needs. `stopped` is a task in a consumed ptrace-stop, about to run user code at the
  // registers it shows; `slack` is executable, private memory that nothing runs, borrowed for
  // the first remote call.
  struct Means {
    const tracee::ProcessMemory& memory;
    PatchLedger& ledger;
    pid_t stopped = 0;
    Range slack;
    // What else is to be asked of the thread when the blob is there for the first time: a remote call costs
    // most at its beginning and at its end.
    std::function<void(tracee::RemoteCall&)> when_begun{};
  };
  // Room for copies of so many more sites within rel32's reach of `near`. What went wrong, in words.
  std::string make_room(const Means& means, Range near, size_t sites,
                        const std::vector<tracee::MapsEntry>& maps);

  // Whether there is such room for so many bytes of other code.
  bool has_code_room(Range near, uint64_t bytes) const;
  // Makes it; the blob is there then.
  std::string make_code_room(const Means& means, Range near, uint64_t bytes,
                             const std::vector<tracee::MapsEntry>& maps);

  std::optional<VirtAddr> allocate(VirtAddr near, uint64_t size) { return arena_.allocate(near, size); }
  void release(VirtAddr address, uint64_t size) { arena_.release(address, size); }
  // Whether it is ours: a copy, or the blob.
  bool contains(VirtAddr address) const { return arena_.contains(address); }
  std::vector<Range> code_ranges() const { return arena_.ranges(); }
  // Where a thread that a signal finds at `pc` must begin anew: one that is writing a record (agent::Blob).
  std::optional<VirtAddr> begins_anew_at(VirtAddr pc) const;
  // Where a thread goes on that faulted at `pc`, if that is the recorder's look at memory.
  std::optional<VirtAddr> after_fault_at(VirtAddr pc) const;
  // Whether the recorder reads the time stamp counter there, by an instruction of so many bytes.
  static constexpr uint64_t kClockLength = 2;
  bool reads_clock_at(VirtAddr pc) const;
  // Where the recorder expects our breakpoint, and the instruction that stands there.
  VirtAddr ask() const { return blob_ + offsets().ask; }
  static std::span<const std::byte> ask_code();

  // The recorder's mappings, which leave() unmaps too; `control` is where wrappers will look for it.
  bool adopt_recorder(const tracee::ProcessMemory& memory, Range control_mapping, Range shared_mapping);

  // Of a site, for add_sites(); `call`: what the handler may carry out in its place.
  static agent::SiteEntry entry_of(VirtAddr site, VirtAddr copy, std::byte displaced,
                                   agent::SignalCall call = agent::SignalCall::none) {
    return {site.value, copy.value | static_cast<uint64_t>(call) << agent::SiteEntry::kCallShift |
                            static_cast<uint64_t>(displaced) << 56};
  }
  // Tells the handler of sites, before their int3s are written. False where the table is full or gone.
  bool add_sites(const tracee::ProcessMemory& memory, std::span<const agent::SiteEntry> entries);
  bool add_site(const tracee::ProcessMemory& memory, VirtAddr site, VirtAddr copy, std::byte displaced,
                agent::SignalCall call = agent::SignalCall::none);
  void remove_site(const tracee::ProcessMemory& memory, VirtAddr site);
  // Of none any more, once no int3 of ours stands and the handler does not either: other code may be where
  // they stood by the time somebody looks at the table.
  void forget_sites(const tracee::ProcessMemory& memory) const;
  // Leaves word that an SDT semaphore is raised, for whoever comes after our death; false as for add_site().
  bool add_semaphore(const tracee::ProcessMemory& memory, VirtAddr semaphore);
  void remove_semaphore(const tracee::ProcessMemory& memory, VirtAddr semaphore);
  // In the memory of a fork child.
  void remove_semaphore_of(const tracee::ProcessMemory& child, VirtAddr semaphore) const;

  // That the tracer holds back the thread's signals, whose own mask this is, so that whoever comes after our
  // death can give it back. 0: no more.
  void note_mask(const tracee::ProcessMemory& memory, pid_t thread, uint64_t own_mask) const;

  // Of which signals the handlers run with SIGTRAP open, by bit, and SIGTRAP where it is ignored but for us
  // (handler_masks.h); in this memory or a fork child's. Noted for whoever comes after our death.
  uint64_t open_handlers(const tracee::ProcessMemory& memory) const;
  void note_open_handlers(const tracee::ProcessMemory& memory, uint64_t signals) const;

  // Whether the blob is in this memory: a child may have been forked before it was, or after.
  bool stands_in(const tracee::ProcessMemory& memory) const { return existed() && is_ours(memory, blob_); }
  // Notes what is in the slack that is about to go on loan.
  void will_borrow(const tracee::ProcessMemory& memory, Range slack);
  // In the memory of a child that was forked while the slack of `Means` was on loan.
  void give_slack_back(const tracee::ProcessMemory& child) const;

  // Whether a fork child, in which the blob stands, has all that is mapped here by now.
  bool is_whole_in(const tracee::ProcessMemory& child) const;
  // Maps the rest there, where it is here, with what is in it; `own`: this memory. What went wrong, in words.
  std::string complete_child(const Means& child, const tracee::ProcessMemory& own) const;

  // Unmaps everything that is ours in this memory. No thread may stand in it. What went wrong, in words; then
  // the pages stay, inert.
  std::string leave(const Means& means) const;
  using Pieces = std::vector<std::pair<uint64_t, std::vector<std::byte>>>;  // by offset
  // In the memory of a fork child that stands inside a wrapper: what it goes on to write there is its own,
  // not its parent's counts and records. There are no rings there. What went wrong, in words.
  std::string part(const Means& means, const tracee::ProcessMemory& parent) const;
  // In its own memory, whose threads all stand, some inside wrappers, when it is about to be let go of: what
  // they go on to write there is nobody else's, and their fork children find all of it. `kept`: what is to be
  // in the shared mapping, whose rings go. What went wrong, in words.
  std::string part_for_good(const Means& means, const Pieces& kept);
  // The rings alone, where there are no records.
  std::string unmap_rings(const Means& means);
  // They have been in its own memory.
  void forget_mapped() { mapped_ = false; }

 private:
  static const agent::Blob& offsets() { return *reinterpret_cast<const agent::Blob*>(rtrace_blob_begin); }
  std::string map_chunk(const Means& means, Range chunk);
  std::string begin_blob(const Means& means, Range all, VirtAddr table, uint64_t slots);
  std::string map_table(const Means& means, size_t sites);
  uint64_t slots_for(size_t sites) const;
  static uint64_t table_size(uint64_t slots);
  bool write_table(const tracee::ProcessMemory& memory, Range where, uint64_t slots);
  std::string make_chunk(const Means& means, Range near, uint64_t bytes, size_t sites,
                         const std::vector<tracee::MapsEntry>& maps);
  bool put(agent::SiteEntry entry);
  uint64_t slot_of(uint64_t site) const;
  std::string part_from(const Means& means, const agent::Control& as, const Pieces& kept) const;
  std::string copy_to_child(const Means& child, tracee::RemoteCall& remote, Range range, int protection,
                            const tracee::ProcessMemory& own) const;
  std::string move_table_of_child(const Means& child, tracee::RemoteCall& remote,
                                  const tracee::ProcessMemory& own) const;
  uint64_t size_without_rings(const agent::Control& control) const;
  bool is_ours(const tracee::ProcessMemory& memory, VirtAddr mapping) const;
  static bool is_blank(const tracee::ProcessMemory& memory, Range mapping);
  agent::MappingHeader header(agent::MappingKind kind, uint64_t size) const;

  uint64_t session_;
  VirtAddr blob_;
  bool mapped_ = false;
  VirtAddr slack_;  // that was on loan for the first call
  std::vector<std::byte> in_slack_;
  Range frame_area_;
  CodeArena arena_;
  Range control_, shared_;  // the recorder's
  Range table_;
  std::vector<agent::SiteEntry> entries_;  // of the table
  size_t entries_used_ = 0;
};

}  // namespace rtrace::mech
