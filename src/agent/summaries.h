// Counts, times and histograms in place: what -c needs, without records.
#pragma once

#include <cstdint>

#include "rtrace/agent/recorder.h"

namespace rtrace::agent {

// One call of one function: at its entry, and at its return. `kept` goes from one to the other in the
// wrapper's frame; its first word is 0 where the entry was not counted.
void count_entry(const Control& control, Slot& slot, uint32_t function, uint64_t frame, uint64_t ticks,
                 uint64_t (&kept)[2]);
void count_return(const Control& control, Slot& slot, uint32_t function, uint64_t frame, uint64_t ticks,
                  const uint64_t (&kept)[2], bool failed);

// A slot has a new owner, in whom no call is open.
void forget_open_calls(const Control& control, const Slot& slot);

}  // namespace rtrace::agent
