#include "rtrace/mech/open_counts.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "load.h"

namespace rtrace::mech {
namespace {

// From where the return address lies, below the saved rbp, down to what a wrapper keeps: at the end of its
// frame, or below it, where unwinders look for the caller's registers there (agent/stub.S, KEPT_LOW).
constexpr uint64_t kKeptBelow =
    sizeof(uint64_t) + sizeof(agent::WrapperFrame) - offsetof(agent::WrapperFrame, kept);
constexpr std::array kKeptPlaces = {kKeptBelow, kKeptBelow + sizeof(agent::WrapperFrame)};
// Below its stack pointer a thread has nothing left; further away is another stack.
constexpr uint64_t kOneStack = uint64_t{8} << 20;
// What our code takes of the stack below a frame that it makes, or takes down.
constexpr uint64_t kOurs = 2048;

struct Begun {
  uint32_t function = 0;
  uint64_t ticks = 0, own = 0;  // Kept
};

bool may_stand(VirtAddr frame, const CountingThread& thread) {
  if (frame < thread.sp) return thread.sp - frame >= kOneStack;
  return !thread.in_our_code || frame - thread.sp >= kOurs;
}

// What the frame keeps, if it is that of a call which is counted by this slot in that summary.
std::optional<agent::Kept> kept_at(const Memory& memory, VirtAddr frame, VirtAddr slot, VirtAddr summary) {
  for (const uint64_t below : kKeptPlaces) {
    const auto kept = memory.read_value<agent::Kept>(frame - below);
    if (kept && kept->slot == slot.value && kept->summary == summary.value) return kept;
  }
  return std::nullopt;
}

// The newest first, `own` being the ticks that calls of the thread have taken that ended.
std::vector<OpenCount> nested(std::span<const Begun> newest_first, uint64_t now, uint64_t own) {
  std::vector<OpenCount> counts;
  uint64_t inside = 0;  // what the open call inside has taken
  for (const Begun& call : newest_first) {
    const uint64_t total = now - call.ticks, inner = own - std::min(own, call.own) + inside;
    counts.push_back({call.function, total, std::min(inner, total)});
    own = call.own;
    inside = total;
  }
  std::ranges::reverse(counts);
  return counts;
}

}  // namespace

std::vector<OpenCount> open_counts(const SharedRecords& records, const CountingTracee& tracee,
                                   const CountingThread& thread, uint32_t functions) {
  const auto index = records.slot_of_thread(thread.thread_pointer);
  if (!index || records.size().summaries == 0) return {};
  const agent::SharedLayout layout = records.size().layout();
  const agent::Slot& slot = records.slot(*index);
  const VirtAddr slot_there = tracee.shared + layout.slots + *index * sizeof(agent::Slot);
  const uint64_t now = thread.ticks - load(slot.held);
  std::vector<Begun> open;
  for (uint32_t function = 0; function < std::min(functions, records.size().functions); ++function) {
    const auto number = records.own_summary(*index, function);
    if (!number) continue;
    const VirtAddr frame{load(records.summary(*number).outer_frame)};
    if (!frame || !may_stand(frame, thread)) continue;
    const VirtAddr there = tracee.shared + layout.summaries + *number * sizeof(agent::Summary);
    const auto kept = kept_at(tracee.memory, frame, slot_there, there);
    if (kept && now - kept->first <= thread.ticks - tracee.since)
      open.push_back({function, kept->first, kept->second});
  }
  std::ranges::sort(open, std::ranges::greater(), &Begun::ticks);
  return nested(open, now, load(slot.own));
}

}  // namespace rtrace::mech
