// Records into the calling thread's ring, waiting for room where the policy says so.
#pragma once

#include <cstdint>

#include "rtrace/agent/recorder.h"
#include "system.h"

namespace rtrace::agent {

// The tracer may change it at any time.
inline Mode mode_now(const Control& control) {
  return *static_cast<const volatile Mode*>(&control.mode);
}

// Somebody reads what is recorded. In a child that a handler has forked meanwhile Control is empty.
inline bool owner_lives(const Control& control) {
  const auto* shared = reinterpret_cast<const SharedHeader*>(once(control.shared));
  if (shared == nullptr) return false;
  const uint32_t owner = __atomic_load_n(&shared->owner, __ATOMIC_ACQUIRE);
  return owner != 0 && (owner & kOwnerDied) == 0;
}

// A part of a record that lies elsewhere; what `label` says stands in the record. Known to append.S.
struct Piece {
  uint64_t label;
  uint64_t source;
  uint64_t length;
};

struct Job {
  Slot* slot;
  const void* words;
  uint64_t word_count;
  const Piece* pieces;
  const Piece* pieces_end;
  uint64_t size;  // bytes of the whole record
};
static_assert(offsetof(Job, slot) == RTRACE_JOB_SLOT && offsetof(Job, words) == RTRACE_JOB_WORDS &&
              offsetof(Job, word_count) == RTRACE_JOB_WORD_COUNT &&
              offsetof(Job, pieces) == RTRACE_JOB_PIECES &&
              offsetof(Job, pieces_end) == RTRACE_JOB_PIECES_END && offsetof(Job, size) == RTRACE_JOB_SIZE &&
              sizeof(Piece) == RTRACE_PIECE_SIZE && offsetof(Piece, source) == 8);

// Says up to where the records that follow can go without a look at how far the reader is. A handler that
// interrupts this does the same: what it leaves, or what is then put in its place, is an end that holds in
// its round of the ring, and lies behind the head in the next.
inline void look_for_room(Slot& slot) {
  const uint64_t round = slot.head & ~(slot.capacity - 1);
  const uint64_t read = __atomic_load_n(&slot.tail, __ATOMIC_ACQUIRE) + slot.capacity;
  const uint64_t end = round + slot.capacity;
  __atomic_store_n(&slot.room_end, end < read ? end : read, __ATOMIC_RELAXED);
}

// The record's call_of(), or 0 where it is lost. Losses of entries and returns are counted by the caller.
uint64_t append_words(const Control& control, Slot& slot, const void* words, uint64_t count);
uint64_t append_pieces(const Control& control, const Job& job);

// The thread stops; its ring is read, and that page (its number, or 0) known if it can be read. The thread's
// id, or 0 where nobody has answered. Whose tracer has died may block SIGTRAP, and is not sent into the int3.
uint64_t ask(const Control& control, uint64_t page = 0);
// The same while that slot's thread records.
void ask_within(const Control& control, Slot& slot, uint64_t page = 0);

}  // namespace rtrace::agent

// append.S; what lies between begin and end may be begun anew.
extern "C" {
uint64_t rtrace_append_words(rtrace::agent::Slot*, const void* words, uint64_t count);
uint64_t rtrace_append_pieces(rtrace::agent::Slot*, const rtrace::agent::Job*);
uint64_t rtrace_ask(uint64_t page);
extern const unsigned char rtrace_question[];
extern const unsigned char rtrace_append_words_end[], rtrace_append_pieces_end[];
}
