#include "rtrace/event/call_stack.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace rtrace::event {

FrameIdentity FrameIdentity::at_entry(const arch::Regs& regs, VirtAddr return_address) {
  const user_regs_struct& raw = regs.raw;
  return {regs.sp(), return_address, {raw.rbx, raw.rbp, raw.r12, raw.r13, raw.r14, raw.r15}};
}

FrameIdentity FrameIdentity::at_return(const arch::Regs& regs, VirtAddr site) {
  // `ret` has popped the return address; the callee-pops form does not exist in the psABI's C calling
  // convention (3.2.2).
  FrameIdentity identity = at_entry(regs, site);
  identity.sp = regs.sp() - sizeof(uint64_t);
  return identity;
}

size_t CallStack::IdentityHash::operator()(const FrameIdentity& identity) const noexcept {
  // The registers count: greenlets have thousands of frames that differ in nothing else. Each round is a
  // multiplication by an odd constant (2^64 divided by the golden ratio) and a fold of its high half, where
  // all the bits of the word have come together.
  uint64_t hash = identity.sp.value;
  auto mix = [&](uint64_t word) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15U;
    hash ^= hash >> 32;
  };
  mix(identity.return_address.value);
  for (uint64_t word : identity.saved) mix(word);
  return hash;
}

Frame& CallStack::enter(const FrameIdentity& identity, VirtAddr site, ProbeId probe, CallId call,
                        Timestamp now, std::vector<Frame>& dead) {
  if (!left_.empty()) {
    if (auto found = left_index_.find(identity); found != left_index_.end()) bury_left(found->second, dead);
  }
  // A frame with this stack pointer and another identity has lost its slot: it is left like those below.
  leave_behind(
      [&](const Frame& frame) { return frame.identity.sp > identity.sp || frame.identity == identity; },
      dead);
  for (size_t i = active_.size(); i > 0 && active_[i - 1].frame.identity == identity; --i) {
    if (active_[i - 1].frame.probe != probe) continue;
    bury_active(i - 1, dead);
    break;
  }
  bool chained = !active_.empty() && active_.back().frame.identity == identity;
  auto depth = static_cast<unsigned>(active_.size());
  active_.push_back({{identity, probe, call, site, now, depth, chained, false}, next_age_++});
  return active_.back().frame;
}

void CallStack::leave(const FrameIdentity& identity, std::vector<Frame>& returned, std::vector<Frame>& dead) {
  leave_behind(
      [&](const Frame& frame) { return frame.identity.sp > identity.sp || frame.identity == identity; },
      dead);
  if (!active_.empty() && active_.back().frame.identity == identity) {
    do {
      returned.push_back(active_.back().frame);
      active_.pop_back();
    } while (returned.back().chained);
    return;
  }
  auto found = left_index_.find(identity);
  if (found == left_index_.end()) return;
  auto newest = found->second;
  auto oldest = oldest_of_chain(newest);
  left_index_.erase(found);
  for (auto it = newest;; --it) {
    returned.push_back(it->frame);
    if (it == oldest) break;
  }
  left_.erase(oldest, std::next(newest));
}

void CallStack::unwind_to(VirtAddr sp, std::vector<Frame>& dead) {
  leave_behind([&](const Frame& frame) { return frame.identity.sp >= sp; }, dead);
}

std::vector<Frame> CallStack::clear() {
  std::vector<Entry> all(left_.begin(), left_.end());
  all.insert(all.end(), active_.begin(), active_.end());
  std::sort(all.begin(), all.end(), [](const Entry& a, const Entry& b) { return a.age < b.age; });
  active_.clear();
  left_.clear();
  left_index_.clear();
  std::vector<Frame> frames;
  frames.reserve(all.size());
  for (const Entry& entry : all) frames.push_back(entry.frame);
  return frames;
}

// The newest active frames, down to the first that `stays`, become left, in the order of their age.
template <typename Stays>
void CallStack::leave_behind(Stays stays, std::vector<Frame>& dead) {
  size_t kept = active_.size();
  while (kept > 0 && !stays(active_[kept - 1].frame)) --kept;
  if (kept == active_.size()) return;
  for (size_t i = kept; i < active_.size(); ++i) {
    Entry& entry = left_.emplace_back(active_[i]);
    entry.frame.left = true;
    left_index_[entry.frame.identity] = std::prev(left_.end());
  }
  active_.resize(kept);
  while (left_.size() > kMaxLeft) bury_left(left_index_.at(left_.front().frame.identity), dead);
}

void CallStack::bury_active(size_t first, std::vector<Frame>& dead) {
  for (size_t i = first; i < active_.size(); ++i) dead.push_back(active_[i].frame);
  active_.resize(first);
}

void CallStack::bury_left(LeftList::iterator newest, std::vector<Frame>& dead) {
  auto oldest = oldest_of_chain(newest);
  left_index_.erase(newest->frame.identity);
  for (auto it = oldest; it != std::next(newest); ++it) dead.push_back(it->frame);
  left_.erase(oldest, std::next(newest));
}

CallStack::LeftList::iterator CallStack::oldest_of_chain(LeftList::iterator newest) {
  while (newest->frame.chained) --newest;
  return newest;
}

}  // namespace rtrace::event
