// The tracer's side of the memory that the recorder in a tracee writes to (agent/recorder.h): laying it out,
// and saying which of its slots are whose. Whatever is read here, the tracee may have written.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "rtrace/agent/recorder.h"
#include "rtrace/base/address.h"

namespace rtrace::mech {

struct RecorderSize {
  unsigned slot_bits = 12;
  uint32_t functions = 0;
  uint32_t summaries = 0;  // 0: records; else at least one for each function
  uint64_t ring_bytes = uint64_t{1} << 20;
  bool operator==(const RecorderSize&) const = default;

  agent::SharedLayout layout() const {
    return agent::shared_layout(slot_bits, functions, summaries, ring_bytes);
  }
  uint64_t slots() const { return uint64_t{1} << slot_bits; }
};

// What of a thread a fork child of its goes on with.
struct ThreadState {
  uint64_t head = 0, held = 0, own = 0, open = 0;  // of its Slot
  // Counted calls that it is in, by function.
  std::vector<std::pair<uint32_t, uint64_t>> counted;
};

class SharedRecords {
 public:
  // `memory` is layout().size bytes of shared memory, page-aligned, that outlive this and begin as zeros.
  SharedRecords(std::span<std::byte> memory, const RecorderSize& size);

  const RecorderSize& size() const { return size_; }
  agent::SharedHeader& header() const { return *reinterpret_cast<agent::SharedHeader*>(memory_.data()); }
  agent::Slot& slot(uint64_t index) const;
  std::span<const std::byte> ring(uint64_t index) const;
  agent::Summary& summary(uint64_t index) const;

  // What the tracee's Control has to say of it. Mode, policy and clock are the caller's to set.
  agent::Control control(VirtAddr shared, VirtAddr plans) const;

  // The thread will not run again, and none with its thread pointer has run since. Its slot is anybody's;
  // its records stay where they are.
  void thread_ended(uint64_t thread_pointer, pid_t tid) const;
  // A thread with that pointer is about to run for the first time: whoever had it before has ended.
  void thread_begins(uint64_t thread_pointer) const;
  // Another task is about to run with the thread's own thread pointer (a vfork child), or has ceased to. The
  // thread, which is task `tid`, does not run now. Meanwhile its own calls alone are recorded.
  void mute(uint64_t thread_pointer, pid_t tid) const;
  void unmute(uint64_t thread_pointer) const;
  // The thread, which does not run, was kept from running for so many ticks. What it was held in all;
  // nullopt where it has no slot.
  std::optional<uint64_t> held(uint64_t thread_pointer, uint64_t ticks) const;
  // The same of what calls that ended have taken by themselves: of those that it has counted, and of so many
  // ticks of others.
  std::optional<uint64_t> own(uint64_t thread_pointer, uint64_t ticks) const;
  // The thread, which does not run, is inside of calls that were met at breakpoints: what the recorder takes
  // of calls inside of these is measured.
  void note_inside(uint64_t thread_pointer, bool inside) const;
  // That thread's.
  std::optional<uint64_t> slot_of_thread(uint64_t thread_pointer) const;
  // That page, by its number, can be read now.
  void know_page(uint64_t page) const;
  void forget_page(uint64_t page) const;
  // Nobody reads any more: threads neither wait nor look at memory that may not be there.
  void abandon() const;
  bool abandoned() const;

  // How far a thread, which stands, has come; calls of the first `functions`. nullopt where it has no slot.
  std::optional<ThreadState> state_of(uint64_t thread_pointer, uint32_t functions) const;
  // These are a fork child's, to which nobody has written: its only thread goes on from there.
  void begin_from(uint64_t thread_pointer, const ThreadState& state) const;
  // A task that had the thread's own thread pointer (a vfork child) has ended, in whatever calls it was in.
  void leave_calls(uint64_t thread_pointer, pid_t tid, const ThreadState& before) const;
  // Bytes that the thread has recorded and nobody has read; 0 where it has no slot.
  uint64_t unread(uint64_t thread_pointer) const;
  // What was read of a slot's ring, in whole words.
  uint64_t read_up_to(uint64_t slot) const;

  // What threads that are inside of calls go on with, in pieces with their offsets: no records, no rings, and
  // no room for any.
  std::vector<std::pair<uint64_t, std::vector<std::byte>>> without_records() const;

  // Recorded calls that have not returned, on whatever stack; those that were left for good too.
  uint64_t open_calls() const;

  // Calls of threads that found no slot.
  uint64_t unplaced() const;

  // The number of the summary that the slot's thread has of a function for itself alone.
  std::optional<uint64_t> own_summary(uint64_t slot, uint32_t function) const;

  // Slots that have ever had a ring, in rising order.
  std::vector<uint64_t> used() const;

 private:
  agent::Slot* find(uint64_t thread_pointer) const;
  std::optional<uint64_t> add(uint64_t agent::Slot::*ticks, uint64_t thread_pointer, uint64_t more) const;
  uint64_t open_calls_of(uint64_t slot, uint32_t function) const;

  std::span<std::byte> memory_;
  RecorderSize size_;
  agent::SharedLayout layout_;
};

// What was counted of one function, of all threads together; times in ticks, `durations` in nanoseconds.
struct CountedCalls {
  uint64_t entered = 0, returned = 0, errors = 0;
  // Of `total`, `inner` was that of recorded calls inside, and `recursive` that of calls inside of another
  // call of the same function.
  uint64_t total = 0, inner = 0, recursive = 0, greatest = 0;
  std::vector<uint64_t> durations;  // agent::kBuckets; none where nothing was counted
};
// Of the first so many functions. Threads may be counting on meanwhile: a call that ends now is in some of
// it.
std::vector<CountedCalls> counted_calls(const SharedRecords& records, uint32_t functions = ~uint32_t{0});
// Of these, how many were entered and have not returned.
uint64_t not_returned(const SharedRecords& records, uint32_t functions);

}  // namespace rtrace::mech
