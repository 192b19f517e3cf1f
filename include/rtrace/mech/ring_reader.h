// One ring of the recorder's, as records. The tracee can write whatever it likes to the memory that is read
// here, at any moment: each record is copied before it is looked at, nothing in it is believed, and a look
// ends where the ring's head was when it began.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "rtrace/agent/recorder.h"
#include "rtrace/mech/shared_records.h"

namespace rtrace::mech {

struct CapturedPiece {
  uint64_t label = 0;  // an address, or one of agent::k...Piece
  std::span<const std::byte> bytes;
};

struct Record {
  enum class Kind : uint8_t {
    thread,    // what follows is of thread `tid`
    entered,   // `call` begins
    returned,  // `call` ends, which may have begun in another ring, or be unknown
    lost,      // so many entries and returns are missing here
    broken,    // the ring's contents made no sense, and were skipped
  };
  Kind kind = Kind::broken;
  bool cut = false;       // there is more, in the memory of a thread that stands
  uint32_t function = 0;  // below RecorderSize::functions
  int32_t tid = 0;
  uint64_t thread_pointer = 0;  // of a thread
  uint64_t ticks = 0;  // may go back a little from one record to the next, where a signal came in between
  uint64_t held = 0;   // ticks until then that were the recorder's or ours
  uint64_t call = 0;
  uint64_t sp = 0, return_address = 0;
  std::array<uint64_t, 6> arguments{};
  uint64_t rax = 0;
  std::array<uint64_t, 6> saved{};
  std::array<uint64_t, agent::kCallerParts> above{};  // of an entry, where its plan has kCallerWords
  uint64_t result = 0;
  uint32_t entries = 0, returns = 0;
  std::span<const CapturedPiece> pieces;
};

class RingReader {
 public:
  enum class Owner : uint8_t { runs, stands, gone };

  // Begins at the ring's byte `from`: where a reader before it had come to.
  RingReader(const SharedRecords& records, uint64_t slot, uint64_t from = 0)
      : records_(&records), slot_(slot), cursor_(from) {}

  // Looks how far the ring is filled. True where there is something to read.
  bool look();
  // The next record up to there. What it refers to is good until the next call. One that is cut is left where
  // it is while its thread runs: soon that stands, with what is missing.
  std::optional<Record> next(Owner owner = Owner::gone);
  // Gives the room of what was read back.
  void release() const;

 private:
  struct Losses {
    uint32_t entries = 0, returns = 0;
    bool operator==(const Losses&) const = default;
  };
  agent::Slot& slot() const { return records_->slot(slot_); }
  std::optional<Record> losses(Losses now);
  Record skip_all();
  bool is_cut() const;
  bool copy_record();
  std::optional<Record> parse();
  bool parse_pieces(size_t first);

  const SharedRecords* records_;
  uint64_t slot_;
  uint64_t cursor_, head_ = 0;
  Losses seen_;
  bool copied_ = false;  // words_ holds the record at the cursor, whose losses have been told
  std::vector<uint64_t> words_;
  std::vector<CapturedPiece> pieces_;
};

}  // namespace rtrace::mech
