// What the recorder inside a tracee and the tracer share: plain data, of the version that abi.h states.
//
// Two mappings. The control mapping is private and read-only to the tracee (the tracer writes through
// /proc/PID/mem): a header page; the Control on a page of its own, under MADV_WIPEONFORK, so that a child
// finds `enabled` false; the FunctionPlans. The shared mapping is a memfd that the tracer maps too: the
// SharedHeader, one Slot for each thread, the summaries, one ring for each slot.
//
// **Two records a call**, one at its entry and one at its return. The order of a thread's records is the
// order of what happened to it, so text that is made of them is the same, line for line, as text made of
// breakpoints: a call that is still open is seen, with what other calls are made inside; a call that is never
// returned from (longjmp, exception, exit) needs nothing special. One record a call, written at its return,
// would have to come with a second structure that shows the open calls, and could not be rendered before the
// outermost call has returned, while the ring fills up. What the second record costs is a copy of five words.
//
// **No system call, as long as the owner lives.** A seccomp filter that the program sets for itself would
// kill it for one. Who needs the tracer (a thread that has no slot yet, or no room in its ring, or reads a
// page for the first time, or shares its thread pointer with another task) meets a breakpoint, Blob::ask. One
// that may have gone since is read by loads, Blob::looks, whose fault the tracer takes.
//
// **An append never sees a signal.** A record is written behind the ring's head and becomes visible by one
// store, in instructions of assembly that nobody else sees anything of (Blob::appends). Every signal of a
// seized thread is a stop before it is a handler: where the thread stands within these instructions the
// tracer sets rip to their first one, their inputs being intact, and they begin anew when the handler has
// returned. So a handler that records finds the ring whole; one that leaves by siglongjmp leaves nothing half
// done; one that fills the ring can wait for the reader. (Reserving by xadd and committing when the nesting
// ends has neither of the last two properties: an activation that is abandoned never commits, and a ring that
// is full within a nested one waits for a reader that waits for the outer one.) Once the tracer is dead
// signals do interrupt an append; then nobody reads the ring.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rtrace/agent/abi.h"
#include "rtrace/agent/buckets.h"
#include "rtrace/agent/caller_words.h"
#include "rtrace/agent/layout.h"
#include "rtrace/agent/passed_arguments.h"

namespace rtrace::agent {

enum class Mode : uint8_t {
  off,     // wrappers pass straight through; so does a child by fork, whose page was wiped
  record,  // a record at each entry and return
  count,   // summaries in place, no records
};
enum class OnFull : uint8_t {
  block,  // the thread asks for room, as long as the owner lives
  drop,   // lost, and counted
};

// The first word of each record: its kind, how many of its words come before the pieces, how many there are
// in all, its function.
enum RecordKind : uint8_t {
  kPadding = RTRACE_KIND_PADDING,  // to the ring's end; this one word only
  kEntry,
  kReturn,
  kThread,  // from here on the ring is this thread's
};
// In `fixed`: not everything that is wanted of the call had room, or can be named by a plan. The thread stops
// behind that record (Blob::ask) before its call goes on.
inline constexpr uint8_t kCut = 0x80;
struct RecordHead {
  uint8_t kind;
  uint8_t fixed;
  uint16_t words;
  uint32_t function;
};

// How a failure shows in rax, for the summary's errors: what decode calls failed. With an errno it counts
// only where that is not 0.
enum class Failure : uint8_t { none, minus_one_32, minus_one_64, null };

struct FunctionPlan {
  enum Flag : uint8_t {
    kCapturesAtEntry = 1,
    kCapturesAtReturn = 2,
    kVectors = 4,         // the stub saves xmm0-xmm7, at return xmm0 and xmm1; they travel with the records
    kSecondResult = 8,    // rdx at return too
    kEntryOnly = 16,      // the stub jumps to the function: there is no return to record
    kBorrowedFrame = 32,  // unwinders find their way through its wrapper: its calls may last, or be left
    kCallerWords = 64,    // alike calls may be open at once: the record says what lies above (kAllEntryWords)
  };
  static constexpr int64_t kNoErrno = INT64_MIN;

  uint8_t flags = 0;
  Failure failure = Failure::none;
  // Of EntryRecord: from kLeastEntryWords on, those at the end can be left away.
  uint16_t entry_words = RTRACE_ENTRY_WORDS;
  // From behind the return address: what the stub hands on to the function, and what the record shows.
  Passed passed;
  uint16_t shown_bytes = 0;
  int64_t errno_offset = kNoErrno;               // from the thread pointer; recorded where `failure` shows
  RecordHead entry_head = {}, return_head = {};  // see finish()
  CapturePlan at_entry, at_return;

  // Whether the record of the entry, and of the return, is the frame's words alone; that of the return but
  // for a failure's errno.
  constexpr bool plain_entry() const {
    return (flags & (kCapturesAtEntry | kVectors | kCallerWords)) == 0 && shown_bytes == 0;
  }
  constexpr bool plain_return() const {
    return (flags & (kCapturesAtReturn | kVectors | kSecondResult)) == 0 &&
           (errno_offset == kNoErrno || failure != Failure::none);
  }
  // What follows from the rest.
  void finish(uint32_t function);
};

struct Control {
  Mode mode;
  OnFull on_full;
  uint8_t slot_bits;
  uint32_t functions;
  uint64_t plans;   // addresses in the tracee, from here on
  uint64_t shared;  // SharedHeader
  uint64_t slots;   // 1 << slot_bits of them
  uint64_t pages;   // kPagesKnown of them, see known_page()
  uint64_t summary_index;
  uint64_t summaries;
  uint64_t rings;
  uint64_t ring_bytes;            // a power of two, at least kLeastRing
  uint64_t nanoseconds_per_tick;  // times 2^32
  // What the recorder itself takes of a call, in ticks: between its two stamps, and outside of them. Of a
  // record that is long, waits for room, or lies inside another call and goes through C++, it is measured.
  uint32_t share_inside, share_outside;
  uint32_t summaries_count;
  uint64_t slot_mask;  // slot_mask()
  uint64_t shapes;     // ShapeEntries, kMostShapeEntries of them
};

inline constexpr uint32_t kOwnerDied = RTRACE_OWNER_DIED;  // FUTEX_OWNER_DIED

inline constexpr unsigned kMostSlotBits = RTRACE_MOST_SLOT_BITS;

struct SharedHeader {
  MappingHeader mapping;
  // A robust futex that the engine holds, from its own list (set_robust_list(2)): the kernel sets kOwnerDied
  // when it dies, whatever it died of. 0, too, is nobody: memory that a fork child was about to be given.
  uint32_t owner;
  uint32_t asked;              // for room, by threads whose ring was full
  uint64_t unplaced;           // calls of threads for which there was no slot
  uint64_t left_calls;         // counted calls that were left for good, as far as the tracer knows
  uint64_t unrecorded;         // calls that were entered unrecorded, less those of them that returned
  uint32_t summaries_claimed;  // may exceed Control::summaries_count
  // A bit for each slot that has ever had a ring.
  uint64_t used[(uint64_t{1} << kMostSlotBits) / 64];
};

// One thread's. Found by a hash of its thread pointer, claimed by the thread itself, given back by the tracer
// when it has seen the thread end, before another can get the same thread pointer.
struct Slot {
  static constexpr uint64_t kFree = 0, kGivenBack = 1;
  // In the low bits of `thread`, which a thread pointer has not: then it is not found at the first look.
  static constexpr uint64_t kClaiming = 2;
  static constexpr uint64_t kMuted = 4;  // another task runs with this thread pointer (a vfork child)
  static constexpr uint64_t kStates = 7;
  uint64_t thread;    // the thread pointer
  uint64_t head;      // bytes that were ever written to the ring
  uint64_t ring;      // address in the tracee
  uint64_t capacity;  // of the ring
  uint32_t lost_entries, lost_returns;
  uint64_t name;  // what call_of() makes of position 0
  uint64_t held;  // ticks that were the recorder's, or the tracer's
  uint64_t own;   // summaries: ticks of calls that have ended
  // By the reader, on a line of its own.
  uint64_t tail;  // bytes that were ever read
  int32_t tid;    // 0 where the slot is nobody's
  uint64_t unused[6];
  // Again the thread's own. Records that end no later than there can be written without a look at how far the
  // reader is or where the ring ends.
  uint64_t room_end;
  uint64_t index_row;  // address of its row in the summary index
  // Records: calls that were recorded here, less those whose return was. Over all slots: how many are open,
  // on whatever stack, or were left.
  uint64_t open;
  uint64_t inside_breakpoints;  // the tracer's, while the thread stands: it is in a call that was met at one
  uint64_t questions;           // ticks that the thread has stood in questions, which the tracer accounts for
  uint64_t padding[107];
};

// What is known of one function in one thread, or in all threads that got none of their own. In ticks, but
// for the buckets, which are of nanoseconds.
struct Summary {
  uint32_t function;
  uint32_t shared;  // 1: of all other threads
  uint64_t entered, errors;
  uint64_t total, greatest;
  uint64_t inner;        // of `total`, what recorded calls inside took
  uint64_t recursive;    // of `total`, the calls inside a call of the same function
  uint64_t outer_frame;  // of the outermost open call; 0: none
  Buckets durations;     // of the calls that have returned
  uint64_t padding[120];
};

// Followed by pieces: {label, length, bytes padded to 8}.
struct EntryRecord {
  RecordHead head;
  uint64_t ticks;
  uint32_t lost_entries, lost_returns;  // of the ring so far
  uint64_t held;                        // Slot::held at `ticks`
  uint64_t sp;                          // where the return address lies
  uint64_t return_address;
  uint64_t saved[6];             // rbx rbp r12 r13 r14 r15
  uint64_t arguments[6];         // rdi rsi rdx rcx r8 r9: what is no argument can be left away, from the end
  uint64_t rax;                  // al: vector registers used by the arguments of a variadic function
  uint64_t above[kCallerParts];  // caller_words.h
};
struct ReturnRecord {
  RecordHead head;
  uint64_t ticks;
  uint32_t lost_entries, lost_returns;
  uint64_t held;
  uint64_t call;  // of the entry: call_of()
  uint64_t result;
};
// No record has fewer words.
struct ThreadRecord {
  RecordHead head;
  uint64_t ticks;
  uint32_t lost_entries, lost_returns;
  uint64_t held;
  uint64_t tid;
  uint64_t thread_pointer;
};

// A piece is memory, labelled with its address, or what no address names: the first page holds nothing.
inline constexpr uint64_t kVectorPiece = 1, kSecondResultPiece = 2;

inline constexpr uint64_t kMaxRecordWords = 2048;
inline constexpr uint64_t kLeastRing = uint64_t{1} << 16;
inline constexpr unsigned kAllEntryWords = sizeof(EntryRecord) / 8;
inline constexpr unsigned kEntryWords = RTRACE_ENTRY_WORDS;             // up to rax
inline constexpr unsigned kLeastEntryWords = RTRACE_LEAST_ENTRY_WORDS;  // up to the saved registers
inline constexpr unsigned kPlainEntryWords = kEntryWords - 1;           // up to the six arguments
inline constexpr unsigned kReturnWords = RTRACE_RETURN_WORDS;

inline void FunctionPlan::finish(uint32_t function) {
  entry_head = {kEntry, static_cast<uint8_t>(entry_words), entry_words, function};
  return_head = {kReturn, kReturnWords, kReturnWords, function};
}

// Names a recorded call: the slot and the place of its entry's record. Never 0.
constexpr uint64_t call_of(uint64_t slot, uint64_t position) {
  return slot << 48 | position | 1;
}

// What goes from a call's entry to its return. `first`: 0 where the entry was not recorded, kUnrecorded where
// SharedHeader::unrecorded counts it all the same. Records: the call's name. Counts: when it began, Slot::own
// then, and the thread's own summary, if any.
inline constexpr uint64_t kUnrecorded = RTRACE_UNRECORDED;  // no call's name is even
struct Kept {
  uint64_t first, second;
  uint64_t slot, summary;
};

// The wrapper's frame, below the saved rbp: what the stub stores and the recorder completes. The first words
// become the entry's record; after the return the first six become that of the return. Only `kept`
// stays while the function runs, but where the plan has captures at return. After it `saved` and `r10` hold
// what the function has left in rcx rsi rdi r8 r9 r11 and r10.
struct WrapperFrame {
  union {
    EntryRecord entry;
    ReturnRecord returned;
  };
  uint64_t r10;
  uint64_t r11;  // at return: rdx
  uint64_t padding;
  Kept kept;
};

// A chain of slots is not longer: the tracer makes four times as many as there may be threads.
inline constexpr uint64_t kLongestChain = 64;
constexpr uint64_t slot_of(uint64_t thread, unsigned bits) {
  return thread * 0x9e3779b97f4a7c15 >> (64 - kMostSlotBits) & ((uint64_t{1} << bits) - 1);
}
// Of the same product, shifted by kMostSlotBits + RTRACE_SLOT_BITS bits less than 64: the slot's offset.
constexpr uint64_t slot_mask(unsigned bits) {
  return ((uint64_t{1} << bits) - 1) << RTRACE_SLOT_BITS;
}

inline constexpr uint64_t kUserEnd = (uint64_t{1} << 47) - 4096;  // where a program's addresses end

// Numbers of pages that could be read when the tracer was asked, each at its place or nowhere.
inline constexpr uint64_t kPagesKnown = uint64_t{1} << 16;
constexpr uint64_t known_page(uint64_t page) {
  return page * 0x9e3779b97f4a7c15 >> 48;
}

// Where the parts of the shared mapping lie, by offset.
struct SharedLayout {
  uint64_t pages, slots, summary_index, summaries, rings, size;
};
constexpr SharedLayout shared_layout(unsigned slot_bits, uint32_t functions, uint32_t summaries,
                                     uint64_t ring_bytes) {
  constexpr uint64_t kPage = 4096;
  const uint64_t threads = uint64_t{1} << slot_bits;
  SharedLayout layout{};
  layout.pages = kPage;
  layout.slots = layout.pages + kPagesKnown * sizeof(uint64_t);
  layout.summary_index = layout.slots + threads * sizeof(Slot);
  const uint64_t index = summaries == 0 ? 0 : threads * functions * sizeof(uint32_t);
  layout.summaries = (layout.summary_index + index + kPage - 1) / kPage * kPage;
  layout.rings = layout.summaries + summaries * sizeof(Summary);
  layout.size = layout.rings + threads * ring_bytes;
  return layout;
}

// And those of the control mapping: its head, the Control, the FunctionPlans, the EntryNotes, the
// ShapeEntries.
inline constexpr uint64_t kControlOffset = 4096, kPlansOffset = 8192;

// What whoever comes after our death must know, fork children's memory included: which code is not the
// program's own, and whose memory it leads to.
// Padding that a call of ours stands in, through which wrappers go on. Address 0: none.
struct ForetellingNote {
  uint64_t address;
  uint8_t padding[8];  // what stood there, as many bytes as the call has
};
struct ControlHead {
  MappingHeader mapping;
  uint64_t notes, notes_count;  // address of EntryNotes
  uint64_t shared, shared_size;
  ForetellingNote foretelling;
};
// A GOT slot that leads to a wrapper, or a function's entry that holds our jump, to the wrapper or, where
// there is room for a short one only, to another in the padding that it leads to. Address 0: none.
struct EntryNote {
  static constexpr unsigned kLength = 8;
  uint64_t address;                             // of a function's first instruction, or of a GOT slot
  uint8_t original[kLength], written[kLength];  // the first `length`: of a slot all
  uint8_t padding[kLength], hop[kLength];       // of a short jump: what stood there, and the jump from there
  uint8_t length;
  uint8_t unused[7];
};
static_assert(sizeof(EntryNote) == 48 && sizeof(ControlHead) <= kControlOffset);

inline constexpr uint64_t kMostShapeEntries = uint64_t{1} << 16;  // 16 bits number them

struct ControlLayout {
  uint64_t notes, shapes, size;
};
constexpr ControlLayout control_layout(uint32_t functions) {
  constexpr uint64_t kPage = 4096;
  const uint64_t notes = (kPlansOffset + functions * sizeof(FunctionPlan) + 7) / 8 * 8;
  const uint64_t shapes = (notes + functions * sizeof(EntryNote) + kPage - 1) / kPage * kPage;
  return {notes, shapes, shapes + kMostShapeEntries * sizeof(ShapeEntry)};
}

static_assert(offsetof(Slot, head) == RTRACE_SLOT_HEAD && offsetof(Slot, ring) == RTRACE_SLOT_RING &&
              offsetof(Slot, capacity) == RTRACE_SLOT_CAPACITY &&
              offsetof(Slot, lost_entries) == RTRACE_SLOT_LOST && offsetof(Slot, name) == RTRACE_SLOT_NAME &&
              offsetof(Slot, held) == RTRACE_SLOT_HELD && offsetof(Slot, own) == RTRACE_SLOT_OWN &&
              offsetof(Slot, tail) == RTRACE_SLOT_TAIL && offsetof(Slot, room_end) == RTRACE_SLOT_ROOM_END &&
              offsetof(Slot, open) == RTRACE_SLOT_OPEN &&
              offsetof(Slot, index_row) == RTRACE_SLOT_INDEX_ROW && offsetof(Slot, thread) == 0);
static_assert(sizeof(Slot) == 1 << RTRACE_SLOT_BITS && sizeof(Summary) == 1 << RTRACE_SUMMARY_BITS &&
              sizeof(SharedHeader) <= 4096 && sizeof(Control) <= 4096);
static_assert(static_cast<int>(Mode::off) == 0 && static_cast<int>(Mode::count) == RTRACE_MODE_COUNT &&
              offsetof(Control, mode) == 0 && offsetof(Control, functions) == RTRACE_CONTROL_FUNCTIONS &&
              offsetof(Control, slots) == RTRACE_CONTROL_SLOTS &&
              offsetof(Control, summaries) == RTRACE_CONTROL_SUMMARIES &&
              offsetof(Control, nanoseconds_per_tick) == RTRACE_CONTROL_NANOSECONDS &&
              offsetof(Control, share_inside) == RTRACE_CONTROL_INSIDE &&
              offsetof(Control, share_outside) == RTRACE_CONTROL_OUTSIDE &&
              offsetof(Control, summaries_count) == RTRACE_CONTROL_SUMMARIES_COUNT &&
              offsetof(Control, slot_mask) == RTRACE_CONTROL_SLOT_MASK);
static_assert(offsetof(FunctionPlan, failure) == RTRACE_PLAN_FAILURE && sizeof(Failure) == 1 &&
              offsetof(FunctionPlan, entry_head) == RTRACE_PLAN_ENTRY_HEAD &&
              RTRACE_PLAN_ENTRY_HEAD + offsetof(RecordHead, words) == RTRACE_PLAN_ENTRY_WORDS &&
              RTRACE_PLAN_ENTRY_HEAD + offsetof(RecordHead, function) == RTRACE_PLAN_FUNCTION &&
              offsetof(FunctionPlan, return_head) == RTRACE_PLAN_RETURN_HEAD &&
              static_cast<int>(Failure::null) == RTRACE_FAILURE_NULL &&
              offsetof(Blob, control) == RTRACE_BLOB_CONTROL);
static_assert(offsetof(Summary, function) == RTRACE_SUMMARY_FUNCTION &&
              offsetof(Summary, entered) == RTRACE_SUMMARY_ENTERED &&
              offsetof(Summary, total) == RTRACE_SUMMARY_TOTAL &&
              offsetof(Summary, greatest) == RTRACE_SUMMARY_GREATEST &&
              offsetof(Summary, inner) == RTRACE_SUMMARY_INNER &&
              offsetof(Summary, recursive) == RTRACE_SUMMARY_RECURSIVE &&
              offsetof(Summary, outer_frame) == RTRACE_SUMMARY_OUTER_FRAME &&
              offsetof(Summary, durations) == RTRACE_SUMMARY_DURATIONS);
static_assert(sizeof(RecordHead) == 8 && offsetof(RecordHead, words) * 8 == RTRACE_HEAD_WORDS_SHIFT &&
              offsetof(EntryRecord, lost_entries) == RTRACE_RECORD_LOST &&
              offsetof(ReturnRecord, lost_entries) == RTRACE_RECORD_LOST &&
              offsetof(ThreadRecord, lost_entries) == RTRACE_RECORD_LOST &&
              offsetof(EntryRecord, above) == kEntryWords * 8 && sizeof(ReturnRecord) == kReturnWords * 8 &&
              sizeof(ThreadRecord) >= kReturnWords * 8 &&
              offsetof(EntryRecord, arguments) == RTRACE_FRAME_ARGUMENTS &&
              offsetof(EntryRecord, rax) == RTRACE_FRAME_RAX &&
              offsetof(EntryRecord, saved) == RTRACE_FRAME_SAVED &&
              offsetof(EntryRecord, arguments) == kLeastEntryWords * 8 &&
              offsetof(ReturnRecord, result) == RTRACE_FRAME_RESULT);
static_assert(sizeof(WrapperFrame) == RTRACE_FRAME_SIZE && sizeof(WrapperFrame) % 16 == 0 &&
              offsetof(WrapperFrame, r10) == RTRACE_FRAME_R10 &&
              offsetof(WrapperFrame, r11) == RTRACE_FRAME_R11 &&
              offsetof(WrapperFrame, kept) == RTRACE_FRAME_KEPT);

}  // namespace rtrace::agent
