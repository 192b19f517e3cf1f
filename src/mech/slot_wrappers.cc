// Calls through a GOT slot, wrapped: the slot leads to the wrapper, and the function stays as it is.
#include <algorithm>
#include <array>
#include <cstring>

#include "interrupted.h"
#include "rtrace/base/log.h"
#include "rtrace/base/moment.h"
#include "rtrace/mech/trampolines.h"
#include "rtrace/tracee/thread.h"
#include "way_on.h"

namespace rtrace::mech {
namespace {

using Slot = std::array<std::byte, sizeof(VirtAddr::value)>;
static_assert(sizeof(Slot) == agent::EntryNote::kLength);

Slot slot_of(VirtAddr leads_to) {
  Slot slot;
  std::memcpy(slot.data(), &leads_to.value, slot.size());
  return slot;
}

bool is_of_slot(const agent::EntryNote& note) {
  return note.length == sizeof(Slot);
}

std::optional<Slot> read_slot(const tracee::ProcessMemory& memory, VirtAddr at) {
  Slot now;
  return memory.read_forced(at, now) == now.size() ? std::optional(now) : std::nullopt;
}

bool holds(const Slot& now, const uint8_t (&noted)[sizeof(Slot)]) {
  return std::memcmp(now.data(), noted, now.size()) == 0;
}

class OwnSlots : public Memory {
 public:
  using Values = std::map<VirtAddr, std::pair<Slot, Slot>>;  // what we wrote, what was there
  OwnSlots(const Memory& memory, Values values) : memory_(memory), values_(std::move(values)) {}

  size_t read(VirtAddr address, std::span<std::byte> out) const override {
    const size_t got = memory_.read(address, out);
    const auto slot = values_.find(address);
    if (slot == values_.end() || got != sizeof(Slot)) return got;
    const auto& [written, original] = slot->second;
    if (std::equal(written.begin(), written.end(), out.begin())) std::ranges::copy(original, out.begin());
    return got;
  }

 private:
  const Memory& memory_;
  Values values_;
};

}  // namespace

std::unique_ptr<Memory> Trampolines::with_own_slots() const {
  OwnSlots::Values values;
  for (const auto& [at, entry] : entries_) {
    if (!is_of_slot(entry.note)) continue;
    auto& [written, original] = values[at];
    std::memcpy(written.data(), entry.note.written, written.size());
    std::memcpy(original.data(), entry.note.original, original.size());
  }
  return std::make_unique<OwnSlots>(space_.memory(), std::move(values));
}

// Where nobody is in the middle of a call that one of these probes has still to see, or would be counted
// twice.
Trampolines::Answer Trampolines::install_slot(const Function& function,
                                              std::span<const StoppedThread> threads) {
  if (function.slot.value % sizeof(Slot) != 0) return Declined{"its GOT slot is not aligned"};
  if (read_slot(space_.memory(), function.slot) != slot_of(function.entry))
    return Declined{"its GOT slot leads elsewhere"};
  if (function.borrowed)
    if (std::string why = why_not_borrowed(*function.borrowed); !why.empty()) return Declined{why};
  Moves moves;
  for (const Function::Probe& probe : function.replaces) {
    auto way = way_from(probe, function.entry, threads);
    if (auto* busy = std::get_if<Busy>(&way)) return std::move(*busy);
    for (const auto& move : std::get<Moves>(way)) moves.push_back(move);
  }
  const auto made = allocate(function);
  if (!made) return Busy{"no room for its wrapper near it yet"};
  std::string failure = write_code(function, *made, arch::encode_far_jmp(function.entry), next_);
  Answer answer = Declined{failure};
  if (failure.empty()) answer = write_slot(function, *made);
  if (!std::holds_alternative<Wrapped>(answer)) {
    release(function, *made);
    return answer;
  }
  for (const Function::Probe& probe : function.replaces) space_.remove_probe(probe.site, probe.owner);
  // Afterwards: the int3 that they would have met again has gone.
  for (const auto& [tid, pc] : moves) (void)tracee::set_pc(tid, pc);
  return answer;
}

// Who has called through the slot, and stands in front of the int3 that is to see it; or has met it, and is
// on its way back from the copy. None of the latter where the int3 stays.
std::variant<Trampolines::Moves, Busy> Trampolines::way_from(const Function::Probe& probe, VirtAddr entry,
                                                             std::span<const StoppedThread> threads) const {
  Moves moves;
  const BreakpointSite* site = space_.find(probe.site);
  if (site == nullptr) return moves;
  const bool goes = site->probes.size() == 1 && !site->serves_other_than_probes();
  const Range unseen{site->address == entry ? entry : site->address + 1, site->address + 2};
  const Range copy{site->copy, site->copy + (goes ? site->copy_size : 0)};
  for (const StoppedThread& thread : threads) {
    if (unseen.contains(thread.pc) || interrupted_in(unseen, thread.stack))
      return Busy{fmt::format("thread {} has not met the breakpoint at {} yet", thread.tid, site->address)};
    StandingThread standing{thread.tid, thread.pc, thread.stack};
    if (copy.contains(thread.pc) && !at_system_call(thread.pc))
      if (const VirtAddr own = place_in_program(thread.pc, *site)) standing.pc = own;
    if (auto busy = patch_conflicts({&copy, 1}, {&standing, 1})) return std::move(*busy);
    if (standing.pc != thread.pc) moves.emplace_back(thread.tid, standing.pc);
  }
  return moves;
}

Trampolines::Answer Trampolines::write_slot(const Function& function, const Made& made) {
  const Slot own = slot_of(function.entry), ours = slot_of(made.stub);
  Entry entry;
  entry.index = next_;
  entry.note.address = function.slot.value;
  entry.note.length = sizeof(Slot);
  std::memcpy(entry.note.original, own.data(), own.size());
  std::memcpy(entry.note.written, ours.data(), ours.size());
  if (!publish(entry) || !link_.note_entry(space_.memory(), next_, entry.note)) {
    withdraw(entry);
    return Declined{"what repairs it cannot be written"};
  }
  const moment::Scope writing(Moment::byte_write);
  if (space_.memory().write(function.slot, ours) != 0) {
    withdraw(entry);
    return Declined{"its GOT slot cannot be written"};
  }
  entries_[function.slot] = entry;
  if (function.borrowed) note_lent(*function.borrowed);
  RTRACE_LOG(mech, 2, "wrapper {} of {} for calls through {} in {}, stub {}", next_, function.entry,
             function.slot, space_.pid(), made.stub);
  // By its second byte, which differs from place to place: a stub's first is one of few.
  return Wrapped{next_++, function.slot + 1, ours[1], 0};
}

// What it held then, which led to us, may be called whenever the program likes.
bool Trampolines::slot_was_written_to(const tracee::ProcessMemory& memory) const {
  return std::ranges::any_of(entries_, [&](const auto& entry) {
    if (!is_of_slot(entry.second.note)) return false;
    const auto now = read_slot(memory, entry.first);
    return now && !holds(*now, entry.second.note.original);
  });
}

}  // namespace rtrace::mech
