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

// A thread that stands, in none of our code, at `ticks`.
struct CountingThread {
  uint64_t thread_pointer = 0;
  VirtAddr sp;
  uint64_t ticks = 0;
};

// Of each of the first `functions` the outermost call that the thread is in, in the order in which they
// began. `memory` is the tracee's, where the shared mapping lies at `shared`. A call that was left without a
// return is told by its frame, which is not there any more; of threads without a summary of their own nothing
// is known.
std::vector<OpenCount> open_counts(const SharedRecords& records, VirtAddr shared, const Memory& memory,
                                   const CountingThread& thread, uint32_t functions);

}  // namespace rtrace::mech
