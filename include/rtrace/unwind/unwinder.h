// Native backtraces: from the registers of a thread to the places where its functions' callers go on.
//
// Only call frame information is followed, never the contents of code, so that breakpoints in it do not
// matter. A backtrace ends where there is none (code made at run time, objects without .eh_frame), where the
// stack makes no sense, or at the thread's first function.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "rtrace/base/memory.h"
#include "rtrace/unwind/frame_table.h"
#include "rtrace/unwind/registers.h"

namespace rtrace::unwind {

struct Frame {
  VirtAddr address;          // where it goes on
  bool interrupted = false;  // by a signal, before the instruction there; else it made a call that ends there
  bool restorer = false;     // where a signal's handler returns to: nothing has called from there
  // Inside the instruction that the frame is at, for naming it.
  VirtAddr inside() const { return interrupted || restorer ? address : address - 1; }
};

enum class End : uint8_t {
  outermost,  // the first function of its thread
  limit,      // as many frames as were asked for
  no_object,  // the last frame's code is in no object
  no_entry,   // its object does not describe it
  bad_stack,  // its caller is where none can be
};

struct Backtrace {
  std::vector<Frame> frames;
  End end = End::outermost;
};

// The object that holds an address: nullptr where there is none.
struct Place {
  FrameTable* table = nullptr;
  LoadBias bias;
};
using FindPlace = std::function<Place(VirtAddr)>;

inline constexpr size_t kMostFrames = 4096;

// Of a thread that stands anywhere. The first frame is where it stands.
Backtrace frames_from(const Registers& here, const Memory& memory, const FindPlace& find, size_t most);

// Of a thread that stands at a function's first instruction, or at a stub that leads to it: the return
// address lies at its stack pointer. The first frame is the caller's. At most `most` frames, and kMostFrames.
Backtrace callers_of_entry(const Registers& at_entry, const Memory& memory, const FindPlace& find,
                           size_t most);

}  // namespace rtrace::unwind
