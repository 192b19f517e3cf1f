#include "rtrace/mech/open_counts.h"

#include <algorithm>
#include <utility>

#include "load.h"

namespace rtrace::mech {
namespace {

// Of the wrapper's frame, from where the return address lies: below the saved rbp.
constexpr uint64_t kKeptBelow =
    sizeof(uint64_t) + sizeof(agent::WrapperFrame) - offsetof(agent::WrapperFrame, kept);
// Below its stack pointer a thread has nothing left; further away is another stack.
constexpr uint64_t kOneStack = uint64_t{8} << 20;

struct Begun {
  uint32_t function = 0;
  uint64_t ticks = 0, own = 0;  // Kept
};

bool is_left(VirtAddr frame, VirtAddr sp) {
  return frame.value < sp.value && sp.value - frame.value < kOneStack;
}

}  // namespace

std::vector<OpenCount> open_counts(const SharedRecords& records, VirtAddr shared, const Memory& memory,
                                   const CountingThread& thread, uint32_t functions) {
  std::vector<OpenCount> counts;
  const auto index = records.slot_of_thread(thread.thread_pointer);
  if (!index || records.size().summaries == 0) return counts;
  const agent::SharedLayout layout = records.size().layout();
  const agent::Slot& slot = records.slot(*index);
  const uint64_t now = thread.ticks - load(slot.held);
  std::vector<Begun> open;
  for (uint32_t function = 0; function < std::min(functions, records.size().functions); ++function) {
    const auto number = records.own_summary(*index, function);
    if (!number) continue;
    const VirtAddr frame{load(records.summary(*number).outer_frame)};
    if (!frame || is_left(frame, thread.sp)) continue;
    const auto kept = memory.read_value<agent::Kept>({frame.value - kKeptBelow});
    const bool stands = kept && kept->slot == shared.value + layout.slots + *index * sizeof(agent::Slot) &&
                        kept->summary == shared.value + layout.summaries + *number * sizeof(agent::Summary);
    if (stands && kept->first < now) open.push_back({function, kept->first, kept->second});
  }
  std::ranges::sort(open, {}, &Begun::ticks);
  uint64_t own = load(slot.own), within = 0;  // of what began next
  for (auto call = open.rbegin(); call != open.rend(); ++call) {
    const uint64_t total = now - call->ticks;
    const uint64_t inner = own - std::min(own, call->own) + within;
    counts.push_back({call->function, total, std::min(inner, total)});
    own = call->own, within = total;
  }
  std::ranges::reverse(counts);
  return counts;
}

}  // namespace rtrace::mech
