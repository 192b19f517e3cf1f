#include "summaries.h"

namespace rtrace::agent {
namespace {

// A handler that interrupts one of these sees it done or not begun. Of memory that threads share the
// processor's lock is needed too.
void add(const Summary& summary, uint64_t& counter, uint64_t value) {
  if (summary.shared != 0)
    asm volatile("lock addq %1, %0" : "+m"(counter) : "r"(value) : "cc");
  else
    asm volatile("addq %1, %0" : "+m"(counter) : "r"(value) : "cc");
}

void raise_to(uint64_t& greatest, uint64_t value) {
  uint64_t seen = __atomic_load_n(&greatest, __ATOMIC_RELAXED);
  while (seen < value &&
         !__atomic_compare_exchange_n(&greatest, &seen, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}

Summary* summaries_of(const Control& control) {
  return reinterpret_cast<Summary*>(control.summaries);
}

uint64_t index_of(const Slot& slot) {
  return slot.name >> 48;
}

uint32_t& index_entry(const Control& control, const Slot& slot, uint32_t function) {
  return reinterpret_cast<uint32_t*>(control.summary_index)[index_of(slot) * control.functions + function];
}

// The first summaries, one for each function, are everybody's; the others are claimed by threads. Two that
// one thread has claimed for one function, the second in a handler, both count.
__attribute__((noinline)) Summary& first_summary(const Control& control, const Slot& slot,
                                                 uint32_t function) {
  auto& shared = *reinterpret_cast<SharedHeader*>(control.shared);
  uint32_t index = control.functions + __atomic_fetch_add(&shared.summaries_claimed, 1, __ATOMIC_RELAXED);
  const bool own = index < control.summaries_count && index >= control.functions;
  if (!own) {
    __atomic_fetch_sub(&shared.summaries_claimed, 1, __ATOMIC_RELAXED);
    index = function;
  }
  Summary& summary = summaries_of(control)[index];
  summary.function = function;
  summary.shared = own ? 0 : 1;
  __atomic_store_n(&index_entry(control, slot, function), index + 1, __ATOMIC_RELEASE);
  return summary;
}

Summary& summary_of(const Control& control, const Slot& slot, uint32_t function) {
  const uint32_t index = index_entry(control, slot, function);
  if (index == 0 || index > control.summaries_count) [[unlikely]]
    return first_summary(control, slot, function);
  return summaries_of(control)[index - 1];
}

uint64_t nanoseconds(const Control& control, uint64_t ticks) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(ticks) * control.nanoseconds_per_tick >> 32);
}

uint64_t at_least_0(uint64_t value, uint64_t less) {
  return value > less ? value - less : 0;
}

uint64_t smaller(uint64_t value, uint64_t other) {
  return value < other ? value : other;
}

}  // namespace

// The outermost open call is known by its frame: one that lies at or below the new one was left without a
// return.
void count_entry(const Control& control, Slot& slot, uint32_t function, uint64_t frame, uint64_t ticks,
                 uint64_t (&kept)[2]) {
  Summary& summary = summary_of(control, slot, function);
  add(summary, summary.entered, 1);
  if (summary.shared == 0 && summary.outer_frame <= frame) summary.outer_frame = frame;
  kept[1] = slot.own;
  kept[0] = ticks - slot.held;
}

// Time stands still while the recorder works. What calls inside took by themselves has been added to `own`
// since the entry.
void count_return(const Control& control, Slot& slot, uint32_t function, uint64_t frame, uint64_t ticks,
                  const uint64_t (&kept)[2], bool failed) {
  Summary& summary = summary_of(control, slot, function);
  const uint64_t now = ticks - slot.held;
  const uint64_t duration = at_least_0(now > kept[0] ? now - kept[0] : 0, control.share_inside);
  add(summary, summary.total, duration);
  add(summary, summary.durations.counts[bucket_of(nanoseconds(control, duration))], 1);
  if (slot.own != kept[1]) add(summary, summary.inner, smaller(at_least_0(slot.own, kept[1]), duration));
  slot.own = kept[1] + duration;
  slot.held += control.share_inside + control.share_outside;
  if (failed) add(summary, summary.errors, 1);
  if (summary.greatest < duration) raise_to(summary.greatest, duration);
  if (summary.shared != 0) return;
  if (summary.outer_frame <= frame)
    summary.outer_frame = 0;
  else
    add(summary, summary.recursive, duration);
}

void forget_open_calls(const Control& control, const Slot& slot) {
  for (uint32_t function = 0; function < control.functions; ++function) {
    const uint32_t index = index_entry(control, slot, function);
    if (index > control.functions && index <= control.summaries_count)
      summaries_of(control)[index - 1].outer_frame = 0;
  }
}

}  // namespace rtrace::agent
