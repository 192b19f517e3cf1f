// Pairs entries and returns of one thread. Pure: it sees stack pointers, return addresses and registers,
// never a tracee.
//
// A frame's identity is (stack pointer at entry, return address, rbx rbp r12-r15 at entry). The psABI makes a
// callee preserve exactly these, so a return restores them; a stack pointer alone is not enough, because
// greenlets run on copied slices of one stack.
//
// - A return takes the newest frame that is equal in all. Callees of Go and OCaml preserve none of
//   these: their frames are entered without any (without_registers()).
// - A tail call (f jumps to g) enters g with f's identity: the two form a chain, and one return ends both, g
//   first.
// - When the same probe, or a left frame, is entered again with the same identity, the older frame was
//   unwound (longjmp, an exception) and has no return; or it lies on a copied slice and is still to return:
//   greenlets that are new differ in nothing but the contents of their stacks. So the words of the caller's
//   frame right above the return address decide. Equal: unwound. Different: the older frame is left, and of
//   the frames with that identity a return takes the one whose words are most like those found then (a callee
//   may have written to some of them), of several the newest.
//   A program in which f tail-calls itself, directly or around a ring, through traced entries looks like one
//   that unwinds, and is reported the same way.
// - Frames below the current stack pointer have been left. They are out of depth, but still able to return:
//   they may be on another stack (a coroutine), or about to be resumed.
//
// A frame's own time is its duration less that of the traced calls inside. It ends when the frame is left:
// what passes until it returns all the same is other code's.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "rtrace/agent/caller_words.h"
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
  FrameIdentity without_registers() const { return {sp, return_address, {}}; }
  // Of the frame that a thread standing at `site`, right after a return to it, has just left.
  static FrameIdentity at_return(const arch::Regs& regs, VirtAddr site);
};

// The contents of the stack right above a return address, hashed by parts: a part that differs is a word or
// more that differ. Greenlets that are new were seen to differ 440 bytes above it, and nowhere below.
struct CallerWords {
  static constexpr size_t kBytes = agent::kCallerBytes;
  std::array<uint64_t, agent::kCallerParts> parts{};
  bool operator==(const CallerWords&) const = default;

  // Of the bytes that could be read, from the front.
  static CallerWords of(std::span<const std::byte> above);
  size_t equal_parts(const CallerWords& other) const;
};

struct Frame {
  FrameIdentity identity;
  CallerWords above{};
  ProbeId probe{};
  CallId call{};
  VirtAddr site;  // where it was entered
  Timestamp entered;
  unsigned depth = 0;    // of active frames below it when it was entered
  bool chained = false;  // entered by a tail call from the next older frame of the same identity
  bool left = false;
  bool recursive = false;  // a call of the same probe was active when it was entered
  // Nanoseconds, all but `inner` set when it returns, is left or is found dead.
  uint64_t inner = 0;     // of traced calls inside, so far
  uint64_t self = 0;      // the duration less `inner`, until it was left
  uint64_t duration = 0;  // until it returned; of one that does not, until it was left
};

class CallStack {
 public:
  static constexpr size_t kMaxLeft = 65536;
  // Left frames (or chains) of one identity. A loop that unwinds and changes its locals makes one with each
  // turn.
  static constexpr size_t kMaxAlike = 256;

  // `now` is the thread's: it never goes back.
  // A traced function is entered. Frames that this proves dead are appended to `dead`, oldest first. The
  // reference is good until the next call.
  Frame& enter(const FrameIdentity& identity, VirtAddr site, ProbeId probe, CallId call, Timestamp now,
               std::vector<Frame>& dead, const CallerWords& above = {});

  // A return site is reached. Appends the frames that return now to `returned`, newest first: none where it
  // was no traced call's return, several for a chain of tail calls. Frames over the limit of left ones go to
  // `dead`. `above` matters only where alike() says so.
  void leave(const FrameIdentity& identity, Timestamp now, std::vector<Frame>& returned,
             std::vector<Frame>& dead, const CallerWords& above = {});

  // That call returns, and no other of its chain: what was tail-called returns by itself. False where no such
  // frame is known.
  bool leave_call(const FrameIdentity& identity, CallId call, Timestamp now, std::vector<Frame>& returned,
                  std::vector<Frame>& dead);

  // Time inside the newest active frame that is not its own, for another reason than a call.
  void count_inside(uint64_t nanoseconds) {
    if (!active_.empty()) active_.back().frame.inner += nanoseconds;
  }

  // Whether more than one frame may return with this identity.
  bool alike(const FrameIdentity& identity) const { return left_.index.contains(identity); }

  // Frames whose stack pointer is below are left behind from here on (an event shows where the stack ends
  // now).
  void unwind_to(VirtAddr sp, Timestamp now, std::vector<Frame>& dead);

  // The thread or its stack has ended: all frames, oldest first.
  std::vector<Frame> clear(Timestamp now);

  // Something else that calls are nested in begins and ends: a pair of SDT probes.
  void nest() { ++nested_; }
  void unnest(size_t levels = 1) { nested_ -= std::min(levels, nested_); }

  // What the frame that returns so was entered as: with its registers, as a rule.
  FrameIdentity as_entered(const FrameIdentity& at_return) const;

  // Left ones included.
  template <typename Take>
  void for_each_frame(Take take) const {
    for (const Entry& entry : active_) take(entry.frame);
    for (const Entry& entry : left_.list) take(entry.frame);
  }

  template <typename Take>
  void for_each_active(Take take) const {
    for (const Entry& entry : active_) take(entry.frame);
  }
  // Left frames. Which of them will not return after all is known to whoever can read the stack; `overlaid`:
  // another call has begun in the same place since.
  size_t left() const { return left_.list.size(); }
  template <typename Take>
  void for_each_left(Take take) const {
    for (const Entry& entry : left_.list) {
      const auto last = last_entered_.find(entry.frame.identity.sp);
      take(entry.frame, last != last_entered_.end() && last->second > entry.age);
    }
  }
  // Those of these calls that are left ones, and what is chained to them, go to `dead`.
  void bury_left(const std::unordered_set<CallId>& calls, std::vector<Frame>& dead);
  // Whether a left frame has ever returned: stacks are switched here.
  bool resumes() const { return resumes_; }

  size_t depth() const { return active_.size() + nested_; }
  size_t size() const { return active_.size() + left_.list.size(); }
  // The newest active frame, or one of those that it stands on, for signal handlers and backtraces; nullptr
  // where there is none.
  const Frame* top(size_t below = 0) const {
    return below < active_.size() ? &active_[active_.size() - 1 - below].frame : nullptr;
  }

 private:
  struct Entry {
    Frame frame;
    uint64_t age = 0;  // counts up
  };
  struct IdentityHash {
    size_t operator()(const FrameIdentity& identity) const noexcept;
  };
  using LeftList = std::list<Entry>;

  // The newest frames of the left chains with one identity, in the order in which they were left.
  using Alike = std::vector<LeftList::iterator>;

  // By the time they were left. The frames of one chain lie side by side. The index points into the list: a
  // copy's points into its own.
  struct LeftFrames {
    LeftList list;
    std::unordered_map<FrameIdentity, Alike, IdentityHash> index;
    LeftFrames() = default;
    LeftFrames(const LeftFrames& other);
    LeftFrames(LeftFrames&&) noexcept = default;
    LeftFrames& operator=(LeftFrames other) noexcept;
    ~LeftFrames() = default;
  };

  template <typename Stays>
  void leave_behind(Stays stays, Timestamp now, std::vector<Frame>& dead);
  void settle_times(size_t first, Timestamp now);
  void keep_left(const Entry& entry, std::vector<Frame>& dead);
  void settle_left(const FrameIdentity& identity, const CallerWords& above, std::vector<Frame>& dead);
  void settle_active(const FrameIdentity& identity, const CallerWords& above, ProbeId probe, Timestamp now,
                     std::vector<Frame>& dead);
  void bury_active(size_t first, Timestamp now, std::vector<Frame>& dead);
  void bury_left(LeftList::iterator newest, std::vector<Frame>& dead);
  void forget_left(LeftList::iterator newest);
  bool leave_left_call(const FrameIdentity& identity, CallId call, Timestamp now,
                       std::vector<Frame>& returned);
  LeftList::iterator oldest_of_chain(LeftList::iterator newest);

  // By age. Stack pointers fall from one to the next; only the frames of one chain share theirs, and their
  // whole identity.
  std::vector<Entry> active_;
  std::unordered_map<ProbeId, uint32_t> active_of_;  // how many of each probe
  LeftFrames left_;
  std::unordered_map<VirtAddr, uint64_t> last_entered_;  // ages, at the stack pointers of left frames
  uint64_t next_age_ = 0;
  size_t nested_ = 0;
  bool resumes_ = false;
};

}  // namespace rtrace::event
