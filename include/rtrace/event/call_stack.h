// Pairs entries and returns of one thread. Pure: it sees stack pointers, return addresses and registers,
// never a tracee.
//
// A frame's identity is (stack pointer at entry, return address, rbx rbp r12-r15 at entry). The psABI makes a
// callee preserve exactly these, so a return restores them; a stack pointer alone is not enough, because
// greenlets run on copied slices of one stack.
//
// - A return takes the newest frame that is equal in all.
// - A tail call (f jumps to g) enters g with f's identity: the two form a chain, and one return ends both, g
// first.
// - When the same probe is entered again with the same identity, the older frame was unwound (longjmp, an
// exception): it has no return. A
//   program in which f tail-calls itself, directly or around a ring, through traced entries looks the same
//   and is reported the same way.
// - A left frame is taken for unwound when its identity is entered again, whatever the site: only a coroutine
// that is resumed inside it and
//   then leaves it by a tail call could prove otherwise, and looks the same.
// - Frames below the current stack pointer have been left. They are out of depth, but still able to return:
// they may be on another stack (a
//   coroutine), or about to be resumed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <unordered_map>
#include <vector>

#include "rtrace/arch/regs.h"
#include "rtrace/base/address.h"
#include "rtrace/event/ids.h"

namespace rtrace::event {

struct FrameIdentity {
  VirtAddr sp;  // points at the return address
  VirtAddr return_address;
  std::array<uint64_t, 6> saved{};  // rbx rbp r12 r13 r14 r15
  bool operator==(const FrameIdentity&) const = default;

  // Of a thread that stands at a function's first instruction.
  static FrameIdentity at_entry(const arch::Regs& regs, VirtAddr return_address);
  // Of the frame that a thread standing at `site`, right after a return to it, has just left.
  static FrameIdentity at_return(const arch::Regs& regs, VirtAddr site);
};

struct Frame {
  FrameIdentity identity;
  ProbeId probe{};
  CallId call{};
  VirtAddr site;  // where it was entered
  Timestamp entered;
  unsigned depth = 0;    // of active frames below it when it was entered
  bool chained = false;  // entered by a tail call from the next older frame of the same identity
  bool left = false;
};

class CallStack {
 public:
  static constexpr size_t kMaxLeft = 65536;

  // A traced function is entered. Frames that this proves dead are appended to `dead`, oldest first. The
  // reference is good until the next call.
  Frame& enter(const FrameIdentity& identity, VirtAddr site, ProbeId probe, CallId call, Timestamp now,
               std::vector<Frame>& dead);

  // A return site is reached. Appends the frames that return now to `returned`, newest first: none where it
  // was no traced call's return, several for a chain of tail calls. Frames over the limit of left ones go to
  // `dead`.
  void leave(const FrameIdentity& identity, std::vector<Frame>& returned, std::vector<Frame>& dead);

  // Frames whose stack pointer is below are left behind from here on (an event shows where the stack ends
  // now).
  void unwind_to(VirtAddr sp, std::vector<Frame>& dead);

  // The thread or its stack has ended: all frames, oldest first.
  std::vector<Frame> clear();

  size_t depth() const { return active_.size(); }
  size_t size() const { return active_.size() + left_.size(); }
  // The newest active frame, for signal handlers and backtraces.
  const Frame* top() const { return active_.empty() ? nullptr : &active_.back().frame; }

 private:
  struct Entry {
    Frame frame;
    uint64_t age = 0;  // counts up
  };
  struct IdentityHash {
    size_t operator()(const FrameIdentity& identity) const noexcept;
  };
  using LeftList = std::list<Entry>;

  template <typename Stays>
  void leave_behind(Stays stays, std::vector<Frame>& dead);
  void bury_active(size_t first, std::vector<Frame>& dead);
  void bury_left(LeftList::iterator newest, std::vector<Frame>& dead);
  LeftList::iterator oldest_of_chain(LeftList::iterator newest);

  // By age. Stack pointers fall from one to the next; only the frames of one chain share theirs, and their
  // whole identity.
  std::vector<Entry> active_;
  // By the time they were left. The frames of one chain lie side by side, and an identity has one chain at
  // most, active or left.
  LeftList left_;
  std::unordered_map<FrameIdentity, LeftList::iterator, IdentityHash> left_index_;  // the newest of the chain
  uint64_t next_age_ = 0;
};

}  // namespace rtrace::event
