// Counted calls that have not returned: the summaries know their frames, and these, on the thread's stack,
// when the calls began.
#pragma once

#include <cstdint>
#include <vector>

#include "rtrace/base/address.h"
#include "rtrace/base/memory.h"
#include "rtrace/mech/shared_records.h"

namespace rtrace::mech {

// In ticks, until now. Of `total`, `inner` was that of counted calls inside, open ones included.
struct OpenCount {
  uint32_t function = 0;
  uint64_t total = 0, inner = 0;
};

// Where they are counted.
struct CountingTracee {
  const Memory& memory;
  VirtAddr shared;     // the shared mapping
  uint64_t since = 0;  // ticks: none began before
};
// A thread that stands at `ticks`. In our code: what it enters or leaves there is not looked at.
struct CountingThread {
  uint64_t thread_pointer = 0;
  VirtAddr sp;
  bool in_our_code = false;
  uint64_t ticks = 0;
};

// Of each of the first `functions` the outermost call that the thread is in, in the order in which they
// began. A call that was left without a return is told by its frame, which is not there any more; of threads
// without a summary of their own nothing is known.
std::vector<OpenCount> open_counts(const SharedRecords& records, const CountingTracee& tracee,
                                   const CountingThread& thread, uint32_t functions);

}  // namespace rtrace::mech
