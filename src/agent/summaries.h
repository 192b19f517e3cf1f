// Counts, times and histograms in place: what -c needs, without records.
#pragma once

#include <cstdint>

#include "rtrace/agent/recorder.h"

namespace rtrace::agent {

// One call of one function, at its entry or at its return.
struct Moment {
  uint32_t function;
  uint64_t sp;  // the address of the return address
  uint64_t ticks;
};

void count_entry(const Control& control, Slot& slot, const Moment& moment, Kept& kept);
enum class Outcome : uint8_t { fine, failed };
void count_return(const Control& control, Slot& slot, const Moment& moment, const Kept& kept,
                  Outcome outcome);

// A slot has a new owner, in whom no call is open.
void forget_open_calls(const Control& control, const Slot& slot);

// The thread's own summary of a function, where it has one.
inline Summary* own_summary(const Control& control, const Slot& slot, uint32_t function) {
  const auto* index = reinterpret_cast<const uint32_t*>(control.summary_index) +
                      (slot.name >> 48) * control.functions + function;
  if (*index <= control.functions || *index > control.summaries_count) return nullptr;
  return reinterpret_cast<Summary*>(control.summaries) + (*index - 1);
}

// A handler that interrupts one of these sees it done or not begun.
inline void add_alone(uint64_t& counter, uint64_t value) {
  asm volatile("addq %1, %0" : "+m"(counter) : "r"(value) : "cc");
}
inline void add_among_threads(uint64_t& counter, uint64_t value) {
  asm volatile("lock addq %1, %0" : "+m"(counter) : "r"(value) : "cc");
}

inline void raise_to(uint64_t& greatest, uint64_t value) {
  uint64_t seen = __atomic_load_n(&greatest, __ATOMIC_RELAXED);
  while (seen < value &&
         !__atomic_compare_exchange_n(&greatest, &seen, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}

// The outermost open call is known by its frame: one that lies at or below the new one was left without a
// return.
inline void begin_call(Summary& summary, const Slot& slot, const Moment& moment, Kept& kept) {
  add_alone(summary.entered, 1);
  if (summary.outer_frame <= moment.sp) summary.outer_frame = moment.sp;
  kept = {moment.ticks - slot.held, slot.own, reinterpret_cast<uint64_t>(&slot),
          reinterpret_cast<uint64_t>(&summary)};
}

// What a call took, and what of that was calls inside. Time stands still while the recorder works; what calls
// inside took by themselves has been added to `own` since the entry.
struct Took {
  uint64_t all, inner;
};
inline Took took(const Control& control, Slot& slot, uint64_t ticks, const Kept& kept) {
  const auto all = static_cast<int64_t>(ticks - slot.held - kept.first - control.share_inside);
  const auto inner = static_cast<int64_t>(slot.own - kept.second);
  Took took{all > 0 ? static_cast<uint64_t>(all) : 0, inner > 0 ? static_cast<uint64_t>(inner) : 0};
  if (took.inner > took.all) took.all = took.inner;  // more than the recorder's share was subtracted
  slot.own = kept.second + took.all;
  slot.held += uint64_t{control.share_inside} + control.share_outside;
  return took;
}

// A call has taken some time, if less than the recorder's share is known to.
inline uint64_t& duration_count(const Control& control, Summary& summary, uint64_t ticks) {
  const auto product = static_cast<unsigned __int128>(ticks) * control.nanoseconds_per_tick;
  const auto nanoseconds = static_cast<uint64_t>(product >> 32);
  return summary.durations.counts[bucket_of(nanoseconds == 0 ? 1 : nanoseconds)];
}

inline void end_call(const Control& control, Summary& summary, Slot& slot, const Moment& moment,
                     const Kept& kept) {
  const Took time = took(control, slot, moment.ticks, kept);
  add_alone(summary.total, time.all);
  add_alone(duration_count(control, summary, time.all), 1);
  if (time.inner != 0) add_alone(summary.inner, time.inner);
  if (summary.greatest < time.all) raise_to(summary.greatest, time.all);
  if (summary.outer_frame <= moment.sp)
    summary.outer_frame = 0;
  else
    add_alone(summary.recursive, time.all);
}

}  // namespace rtrace::agent
