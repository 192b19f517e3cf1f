// Plain data that the tracer and code inside the tracee agree on. Nothing here may use a library.
#pragma once

#include <cstdint>

#include "rtrace/agent/signal_calls.h"

namespace rtrace::agent {

// What to copy of the tracee's memory at a call's entry or return, so that the arguments can be rendered
// after the thread runs on. Made by decode from a prototype; carried out by a breakpoint's stop (one gathered
// read) or by a trampoline.
struct Capture {
  enum class Source : uint8_t { integer_register, stack_slot, result };
  enum class Length : uint8_t {
    fixed,     // `bound` bytes
    string,    // up to a NUL, at most `bound` bytes
    argument,  // the value of integer argument `length_index` times `scale`, at most `bound` bytes
    result,    // the return value times `scale`, at most `bound` bytes
    unknown,   // nobody can say here: the thread must stand while it is read
    // The same as `argument` and `result` of what has 32 bits: a register's upper half is anything
    // (psABI 3.2.3).
    argument_int,
    argument_unsigned,
    result_int,
    result_unsigned,
  };
  Source source = Source::integer_register;
  Length length = Length::fixed;
  uint8_t index = 0;         // of the register (0-5), or of the 8-byte stack slot above the return address
  uint8_t length_index = 0;  // 0-based integer argument
  uint16_t scale = 1;
  uint16_t shape = 0;  // the number of what lies there; 0: it holds no pointers that are followed
  uint32_t bound = 0;
};

inline constexpr unsigned kMaxCaptures = 12;

// The number that a capture's length counts by, of the register that holds it.
constexpr uint64_t counted_by(Capture::Length length, uint64_t held) {
  switch (length) {
    case Capture::Length::argument_int:
    case Capture::Length::result_int:
      return static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(held)));
    case Capture::Length::argument_unsigned:
    case Capture::Length::result_unsigned:
      return static_cast<uint32_t>(held);
    default:
      return held;
  }
}

struct CapturePlan {
  // What rendering may need besides.
  static constexpr uint8_t kShapes = 1;  // what lies behind pointers in memory, all of which the shapes name
  static constexpr uint8_t kOpen = 2;    // what nobody can name ahead: decode while the thread is stopped
  uint8_t count = 0;
  uint8_t deep = 0;
  uint16_t stack_bytes = 0;  // of memory-passed arguments, from behind the return address
  Capture captures[kMaxCaptures];
};

// Things of one kind in memory, one behind the other, each with pointers at the same places. They are
// followed by the recorder (agent/captures.cc) as far as decode would follow them, or further.
struct Shape {
  uint32_t stride = 0;     // bytes of one
  uint16_t count = 0;      // of Pointers, which follow in the table
  uint16_t most = 0;       // of one `kind` inside one another that are followed
  uint32_t kind = 0;       // of a struct: a number of it; 0 for others
  uint32_t zero_ends = 0;  // 1: the first that is all zero is the last
};
struct Pointer {
  uint32_t offset = 0;
  Capture capture;  // its `source` says nothing
};
// The table of all. Number 0 is none.
union ShapeEntry {
  Shape shape;
  Pointer pointer;
};
static_assert(sizeof(Shape) == 16 && sizeof(Pointer) == 16 && sizeof(Capture) == 12);

// Every mapping of ours in a tracee begins with this, on a page boundary, so that whoever comes after a
// tracer that died finds it.
struct MappingHeader {
  char magic[16];
  uint32_t version;
  uint32_t kind;     // MappingKind
  uint64_t size;     // of the mapping
  uint64_t session;  // of the tracer that made it
};
inline constexpr char kMappingMagic[16] = {'r', 't', 'r', 'a', 'c', 'e', ' ',    'm',
                                           'a', 'p', 'p', 'i', 'n', 'g', '\x01', 0};
inline constexpr uint32_t kAbiVersion = 19;
enum MappingKind : uint32_t {
  kBlobMapping = 1,  // the blob, with copies behind it
  kCopiesMapping,    // more copies
  kTableMapping,     // a SiteTable
  kControlMapping,   // recorder.h
  kSharedMapping,
};

// One int3 of ours: where it stands, where its out-of-line copy is (0: none any more), and the byte it
// displaced, in the upper byte of the same word; below that, what call it watches. Or an SDT semaphore that
// is raised by us: its address, no copy, and kRaised where the byte would be.
struct SiteEntry {
  static constexpr uint8_t kRaised = 1;
  static constexpr unsigned kCallShift = 48;  // addresses of programs are narrower
  uint64_t site;
  uint64_t copy_and_byte;
  uint64_t copy() const { return copy_and_byte & 0x0000ffffffffffff; }
  SignalCall call() const { return static_cast<SignalCall>(copy_and_byte >> kCallShift & 0xff); }
  uint8_t displaced() const { return static_cast<uint8_t>(copy_and_byte >> 56); }
  bool is_raised_semaphore() const { return copy() == 0 && displaced() == kRaised; }
};

// Open addressing with linear probing; `slots` is a power of two, and a site of 0 ends a chain.
struct SiteTable {
  MappingHeader mapping;
  uint64_t slots;
  uint64_t reserved[2];
  SiteEntry entries[1];  // `slots` of them
};
inline constexpr uint64_t kTableEntries = 64;  // their offset

inline uint64_t site_slot(uint64_t site, uint64_t slots) {
  return site * 0x9e3779b97f4a7c15 >> 24 & (slots - 1);
}

// The head of the blob, the code that runs inside the tracee when no tracer does. Offsets count from its
// beginning.
struct Blob {
  MappingHeader mapping;
  uint64_t bridge;                  // offset of the SIGTRAP handler
  uint64_t restorer;                // offset of its rt_sigreturn
  uint64_t gadget;                  // offset of `syscall; rt_sigreturn`, for remote calls
  uint64_t table;                   // address of the SiteTable; 0 before there is one
  uint64_t frame_begin, frame_end;  // addresses: room for a remote call's frame
  // A thread whose signals the tracer holds back for a moment, as its own pid namespace calls it, and the
  // mask that is its own; 0: none.
  int64_t masked_thread;
  uint64_t own_mask;
  uint64_t control;                   // address of the recorder's Control
  uint64_t enter, leave;              // offsets of what wrappers call
  uint64_t quick_enter, quick_leave;  // the same for plain records (agent/quick.S)
  // Offsets. A thread that a signal finds within one of these is taken back to `again`, mostly the first of
  // its instructions, before the signal is delivered (recorder.h).
  struct Restartable {
    uint64_t begin, end, again;
    bool holds(uint64_t offset) const { return offset >= begin && offset < end && offset != again; }
  };
  Restartable appends[6];
  // The same of looks at memory that may not be there, which begin anew at `begin`: a fault in one is no
  // signal of the program's, and its thread goes on at `fault`. The last is an append.
  struct Look {
    uint64_t begin, end, fault;
    bool holds(uint64_t offset) const { return offset >= begin && offset < end; }
  };
  Look looks[4];
  // An instruction for an int3 of ours, by which the recorder asks the tracer for what it needs.
  uint64_t ask;
  // Where a mapping is about to be made, which until its header stands nothing else tells from the program's
  // own (mech/announced.h); of size 0: none.
  struct Announced {
    uint64_t begin, size;
  } announced;
  // Signals, by bit, whose handlers run with SIGTRAP open for our sake (mech/handler_masks.h); SIGTRAP's own:
  // the program has it ignored, and the kernel has the default.
  uint64_t open_handlers;
  // Offset of the SIGTRAP handler that stands in front of one of the program's own, and that one, which it
  // goes on to with what is not ours.
  uint64_t screen;
  struct OwnHandler {
    uint64_t address, flags;  // SA_...
  } own_handler;
};
// Of the mapping's beginning, for the blob.
inline constexpr uint64_t kBlobRoom = 5 * 4096;

}  // namespace rtrace::agent

// The blob as it is copied into tracees, and its call frame information (.eh_frame), which counts addresses
// from the blob's beginning and lies at rtrace_blob_frames_begin.
extern "C" const unsigned char rtrace_blob_begin[], rtrace_blob_end[];
extern "C" const unsigned char rtrace_blob_frames_begin[], rtrace_blob_frames_end[];
