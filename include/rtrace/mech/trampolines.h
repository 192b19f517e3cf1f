// The wrapped functions of one address space: jumps over their first instructions, the stubs that these lead
// to, and what of them a process must be freed of. Every change asks for all tasks of the memory to be
// stopped.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "rtrace/arch/prologue.h"
#include "rtrace/mech/address_space.h"
#include "rtrace/mech/agent_link.h"
#include "rtrace/mech/open_counts.h"
#include "rtrace/mech/patch.h"
#include "rtrace/mech/shape_table.h"
#include "rtrace/mech/wrapper_stub.h"

namespace rtrace::mech {

// A stopped task and what stands on its stack, for StandingThread; and on the stack that a signal handler on
// one of its own has interrupted.
struct StoppedThread {
  pid_t tid = 0;
  VirtAddr pc;
  uint64_t thread_pointer = 0;
  std::vector<uint64_t> stack;
  // False where its stack pointer is in no mapping that was told of. A worker of the kernel's has none.
  bool stack_known = true;
};
// What counts of a stack below its pointer. No return address lies there; that of a call that has returned
// may still be read.
enum class Below : uint8_t { red_zone, nothing };
// nullopt where the task has died.
std::optional<StoppedThread> look_at(pid_t tid, const tracee::ProcessMemory& memory,
                                     const std::vector<tracee::MapsEntry>& maps,
                                     Below below = Below::red_zone);

// Whether a signal frame on the thread's stacks holds a pc of ours: a handler of the program's that runs now
// has interrupted a copy, and will return to it. Other words there are what dead frames have left. The thread
// was looked at with its red zone: once a handler has returned to what calls rt_sigreturn, its frame begins
// below the stack pointer.
bool handler_returns_to(const StoppedThread& thread, const std::function<bool(VirtAddr)>& ours);
// Whether a handler of the program's runs in that thread, looked at likewise, and the mask that it returns to
// lacks one of these signals.
bool runs_handler_that_blocks(const StoppedThread& thread, uint64_t signals);

class Trampolines {
 public:
  // For one function, prologue's copy and stub together, at most.
  static constexpr uint64_t kCodeBytes = arch::kMaxPrologue + kMaxCalledStub;

  Trampolines(AddressSpace& space, PatchLedger& ledger, OwnerList& owners)
      : space_(space), ledger_(ledger), link_(owners) {}
  ~Trampolines() { forget_all(); }
  Trampolines(const Trampolines&) = delete;
  Trampolines& operator=(const Trampolines&) = delete;

  // Injects the recorder, once. What went wrong, in words.
  std::string begin(const Foothold::Means& means, const AgentLink::Setting& setting);
  bool begun() const { return begun_; }
  // In a fork child of the parent's process, which stands before its first instruction: all that is wrapped
  // there is wrapped here, with records of its own. What went wrong, in words; then restore() is due.
  std::string inherit(const Foothold::Means& means, const Trampolines& parent, uint64_t thread_pointer,
                      const std::optional<ThreadState>& state);
  // Of a thread that stands, for inherit() in its child.
  std::optional<ThreadState> state_of(uint64_t thread_pointer) const;

  // Puts the call there that foretells returns, for the functions behind such frames: in one place for all.
  // False where another has been chosen, or the memory is not as the file has it.
  bool foretell(const BorrowedFrame& frame);

  // A function that a breakpoint stands on, owned by one probe and nothing else.
  struct Function {
    VirtAddr entry;
    size_t room = 0;  // plan::EntryPatch
    uint64_t size = 0;
    std::span<const std::byte> expected;  // of the file, `room` bytes or fewer
    // plan::EntryPatch::hop, and what the file has there. 0: none.
    VirtAddr hop = {};
    std::span<const std::byte> padding = {};
    agent::FunctionPlan plan;
    std::vector<agent::ShapeEntry> shapes = {};  // of the plan's captures
    // Where it may be unwound through.
    std::optional<BorrowedFrame> borrowed = std::nullopt;
    // Not the function is wrapped then, but what calls it through this GOT slot, which holds `entry` and is
    // read by `call` and `jmp` only: it leads to the wrapper, which takes the place of these probes. Of the
    // rest `plan`, `shapes` and `borrowed` count.
    VirtAddr slot = {};
    struct Probe {
      VirtAddr site;
      BreakpointSite::Owner owner;
    };
    std::vector<Probe> replaces = {};
  };
  struct Wrapped {
    uint32_t index = 0;  // of the recorder's functions
    VirtAddr jump;       // where our jump, or what a slot leads to, stands
    std::byte stands{};  // there
    uint8_t covered = 0;
  };
  using Answer = std::variant<Wrapped, Declined, Busy>;
  // Takes the breakpoint out and puts the jump in. `threads` are all that the memory has; those that stand in
  // what is overwritten, or in the breakpoint's copy of it, are sent on.
  Answer install(const Function& function, std::span<const StoppedThread> threads);

  // Whether a wrapped function returns there, and not to its caller: what it calls as the last thing it does
  // finds that address.
  bool returns_to_wrapper(VirtAddr return_address) const;

  // The functions' own first bytes and the slots' own values again, in this memory or in that of a fork
  // child. Wrappers that are running go on.
  void restore(const tracee::ProcessMemory& memory) const;
  // Afterwards, the padding that short jumps led through, and that the foretelling call stands in, but for
  // what one of `threads`, all that the memory has, can come back to.
  void restore_padding(const tracee::ProcessMemory& memory, std::span<const StoppedThread> threads) const;
  bool uses_padding() const;
  // From now on wrappers that are entered record nothing.
  void fall_silent() const;
  // Why our pages must stay for now; empty where no thread can come back to them.
  std::string why_needed(std::span<const StoppedThread> threads) const;
  // Whether it stands in our code or will come back to it, for all that its stack shows. Dead frames may have
  // left words that look so.
  bool leads_to_wrapper(const StoppedThread& thread) const;
  // In a copy of this memory that is about to be freed of our pages, and has its own slots again. Of stacks
  // that no thread runs on, only the counts tell.
  bool is_needed_by(const StoppedThread& child, const tracee::ProcessMemory& memory) const {
    return leads_to_wrapper(child) || (!lent_.empty() && has_open_calls()) || slot_was_written_to(memory);
  }
  // Where a thread that stands at a moved instruction would stand in its function: for a handler of the
  // program's, and never to run on from there, for the bytes may be our jump's. 0: it stands at none.
  VirtAddr moved_from(VirtAddr pc) const;
  // Where one goes on that is sent there, into the jump. 0: what stands there is the function's own, or where
  // the jump begins.
  VirtAddr moved_to(VirtAddr pc) const;
  // An object has left the link map. What stands there all the same is restored with the others.
  void forget(Range range);
  void forget_all();

  // The memory as the program has it, as far as GOT slots go.
  std::unique_ptr<Memory> with_own_slots() const;

  // Calls that have been counted, by Wrapped::index.
  std::vector<CountedCalls> counted() const { return counted_calls(link_.records(), next_); }
  // Those that a thread is in, by the same numbers.
  std::vector<OpenCount> open_counts(const CountingThread& thread) const;
  const SharedRecords& records() const { return link_.records(); }
  size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    uint32_t index = 0;
    agent::EntryNote note{};
    PatchLedger::Index patch = PatchLedger::kNone, hop_patch = PatchLedger::kNone;
  };
  struct Made {
    VirtAddr copy, stub;
    arch::Prologue prologue;
  };
  struct Foretelling {
    VirtAddr at;  // 0: no call stands anywhere
    std::array<std::byte, kForetellingCall.size()> padding{};
    PatchLedger::Index patch = PatchLedger::kNone;
  };
  void note_lent(const BorrowedFrame& frame);
  bool publish_foretelling();
  bool publish(Entry& entry);
  void withdraw(const Entry& entry);
  std::string why_refused(const Function& function, const arch::Prologue& prologue) const;
  std::string why_not_borrowed(const BorrowedFrame& frame) const;
  bool has_open_calls() const;
  std::variant<Made, Declined, Busy> make_code(const Function& function, std::span<const std::byte> own,
                                               uint32_t index);
  std::string write_code(const Function& function, const Made& made, std::span<const std::byte> copy,
                         uint32_t index);
  std::optional<Made> allocate(const Function& function);
  void release(const Function& function, const Made& made);
  using Moves = std::vector<std::pair<pid_t, VirtAddr>>;
  bool at_system_call(VirtAddr pc) const;
  std::variant<Moves, Busy> make_way(const Function& function, const Made& made,
                                     std::span<const StoppedThread> threads) const;
  bool write_plan(const Function& function, agent::FunctionPlan plan, uint32_t index);
  bool write_hop(VirtAddr at, std::span<const std::byte> jump) const;
  Answer write_jump(const Function& function, const Made& made, uint32_t index);
  // slot_wrappers.cc
  Answer install_slot(const Function& function, std::span<const StoppedThread> threads);
  Answer write_slot(const Function& function, const Made& made);
  std::variant<Moves, Busy> way_from(const Function::Probe& probe, VirtAddr entry,
                                     std::span<const StoppedThread> threads) const;
  bool slot_was_written_to(const tracee::ProcessMemory& memory) const;

  AddressSpace& space_;
  PatchLedger& ledger_;
  AgentLink link_;
  ShapeTable shapes_;
  bool begun_ = false;
  uint32_t next_ = 0;
  uint64_t begun_at_ = 0;                                      // ticks
  std::map<VirtAddr, Entry> entries_;                          // by where the jump stands
  std::map<VirtAddr, std::vector<arch::ResumePoint>> copies_;  // of moved instructions, by where they begin
  std::vector<BorrowedFrame> lent_;  // code that functions with borrowed frames return through
  Foretelling foretelling_;
};

}  // namespace rtrace::mech
