// Breakpoints that are to become trampolines, and those that have.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "recordings.h"
#include "rtrace/elf/loaded_object.h"
#include "rtrace/event/ids.h"
#include "rtrace/mech/trampolines.h"
#include "rtrace/plan/entry_patch.h"
#include "rtrace/plan/plan.h"

namespace rtrace::session {

// A function whose calls the threads record by themselves.
struct WrappedFunction {
  event::ProbeId probe{};
  VirtAddr entry;                       // where its breakpoint would stand
  elf::ObjectId caller{};               // of a call site
  std::optional<int64_t> errno_offset;  // from the thread pointer, where a failure of it sets errno
  bool through_slot = false;            // of its caller's GOT: nobody else's calls are recorded
};

// A call that is counted by its thread itself, and open; times in ns until then.
struct OpenCounted {
  event::ProbeId probe{};
  uint64_t duration = 0, self = 0;
};

// A breakpoint that a wrapper is to replace.
struct Waiting {
  plan::ProbePoint point;
  event::ProbeId probe{};
  std::string key;                        // in armed_
  std::optional<plan::EntryPatch> entry;  // once its file was asked; of no meaning where a slot serves
  bool borrows = false;                   // a frame: it may be unwound through
  bool looked_at = false;                 // its code, for that
  bool goes_elsewhere = true;             // FunctionCode
  unsigned empty_slot = 0;                // so many times its slot led nowhere
  bool tried = false;                     // a thread stood in the way
};

// All of that of one address space.
struct Wrapping {
  std::unique_ptr<mech::Trampolines> trampolines;
  std::vector<VirtAddr> hot;  // sites that are to be considered
  bool idle_returns = false;  // threads are stopped at return sites for nothing
  // At most so many get their turn at a time, for threads wait until they are done.
  size_t at_once = SIZE_MAX;
  bool many = false;                     // more than that have come at a time
  std::vector<Waiting> queued, waiting;  // before their turn, and then until all threads stand right
  size_t unfinished() const { return queued.size() + waiting.size(); }
  uint64_t again_at = 0, pause = 0, turn_began = 0;  // monotonic ns
  bool lacks_thread_pointer = false;                 // a static program's start-up code, which sets it
  std::vector<WrappedFunction> functions;            // by mech::Trampolines::Wrapped::index
  std::optional<Recordings> recordings;
  std::vector<mech::CountedCalls> handed_on;
  bool counts_closed = false;
  uint64_t unplaced = 0;  // told so far
  // The last ones: for functions without arguments in memory, and with.
  std::array<std::optional<mech::BorrowedFrame>, 2> lent;
  // Where returns are foretold, the last frame there, and in how many objects it was looked for.
  std::optional<mech::BorrowedFrame> foretelling, foretold;
  size_t sought_in = 0;
};

inline constexpr uint64_t kFirstWrapPause = 5'000'000;  // ns, between two moments for which all threads stand

}  // namespace rtrace::session
