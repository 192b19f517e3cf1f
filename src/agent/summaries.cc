#include "summaries.h"

namespace rtrace::agent {
namespace {

Summary* summaries_of(const Control& control) {
  return reinterpret_cast<Summary*>(control.summaries);
}

uint32_t& index_entry(const Control& control, const Slot& slot, uint32_t function) {
  return reinterpret_cast<uint32_t*>(control.summary_index)[(slot.name >> 48) * control.functions + function];
}

// The first summaries, one for each function, are everybody's; the others are claimed by threads. Two that
// one thread has claimed for one function, the second in a handler, both count.
Summary& first_summary(const Control& control, const Slot& slot, uint32_t function) {
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
  if (index == 0 || index > control.summaries_count) return first_summary(control, slot, function);
  return summaries_of(control)[index - 1];
}

}  // namespace

// Which of the threads' calls is outermost is not known of a shared summary: none is taken for recursive.
void count_entry(const Control& control, Slot& slot, const Moment& moment, Kept& kept) {
  Summary& summary = summary_of(control, slot, moment.function);
  if (summary.shared == 0) return begin_call(summary, slot, moment, kept);
  add_among_threads(summary.entered, 1);
  kept = {moment.ticks - slot.held, slot.own, reinterpret_cast<uint64_t>(&slot), 0};
}

void count_return(const Control& control, Slot& slot, const Moment& moment, const Kept& kept,
                  Outcome outcome) {
  Summary& summary = summary_of(control, slot, moment.function);
  if (outcome == Outcome::failed) add_among_threads(summary.errors, 1);
  if (summary.shared == 0) return end_call(control, summary, slot, moment, kept);
  const Took time = took(control, slot, moment.ticks, kept);
  add_among_threads(summary.total, time.all);
  add_among_threads(summary.inner, time.inner);
  add_among_threads(duration_count(control, summary, time.all), 1);
  raise_to(summary.greatest, time.all);
}

void forget_open_calls(const Control& control, const Slot& slot) {
  for (uint32_t function = 0; function < control.functions; ++function)
    if (Summary* const summary = own_summary(control, slot, function)) summary->outer_frame = 0;
}

}  // namespace rtrace::agent
