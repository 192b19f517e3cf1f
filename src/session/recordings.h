// What the threads of one process have recorded by themselves, ring by ring.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>

#include "rtrace/mech/ring_reader.h"

namespace rtrace::session {

class Recordings {
 public:
  // Of a thread: what follows in its ring is its own.
  struct Ring {
    mech::RingReader reader;
    pid_t tid = 0;
  };

  explicit Recordings(const mech::SharedRecords& records) : records_(records) {}

  // Hands up to `most` records of that ring on, all that were there when it was called at the most, up to one
  // that RingReader::next() leaves. How many there were. `owner` of a thread's id says what it does.
  template <typename OwnerOf, typename Take>
  size_t read(uint64_t slot, size_t most, OwnerOf owner, Take take) {
    Ring& ring = ring_of(slot);
    if (!ring.reader.look()) return 0;
    size_t count = 0;
    while (count < most) {
      const auto record = ring.reader.next(owner(ring.tid));
      if (!record) break;
      if (record->kind == mech::Record::Kind::thread) ring.tid = record->tid;
      ++count;
      take(ring.tid, *record);
      // A thread that waits for room need not wait for all of it.
      if (count % kGiveBack == 0) ring.reader.release();
    }
    ring.reader.release();
    return count;
  }

  // What follows in that ring is that task's.
  void belongs_to(uint64_t slot, pid_t tid) { ring_of(slot).tid = tid; }

  const mech::SharedRecords& records() const { return records_; }

 private:
  static constexpr size_t kGiveBack = 256;
  Ring& ring_of(uint64_t slot);

  mech::SharedRecords records_;
  std::map<uint64_t, Ring> rings_;
};

}  // namespace rtrace::session
