#include "rtrace/event/call_stack.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

namespace rtrace::event {

namespace {

// A multiplication by an odd constant (2^64 divided by the golden ratio) and a fold of its high half, where
// all the bits of the word have come together.
uint64_t mixed(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15U;
  return hash ^ (hash >> 32);
}

uint64_t since(Timestamp before, Timestamp now) {
  return now.monotonic - std::min(before.monotonic, now.monotonic);
}

// Of equals the newest, which is the last.
template <typename Alike>
auto most_like(const Alike& alike, const CallerWords& above) {
  auto best = alike.begin();
  for (auto it = alike.begin(); it != alike.end(); ++it)
    if ((*it)->frame.above.equal_parts(above) >= (*best)->frame.above.equal_parts(above)) best = it;
  return *best;
}

}  // namespace

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
  // The registers count: greenlets have thousands of frames that differ in nothing else.
  uint64_t hash = mixed(identity.sp.value, identity.return_address.value);
  for (uint64_t word : identity.saved) hash = mixed(hash, word);
  return hash;
}

CallerWords CallerWords::of(std::span<const std::byte> above) {
  constexpr size_t kParts = agent::kCallerParts, kPart = kBytes / kParts;
  CallerWords words;
  const size_t size = std::min(above.size(), kBytes) / sizeof(uint64_t) * sizeof(uint64_t);
  for (size_t part = 0; part < kParts; ++part) {
    agent::WordSums sums;
    for (size_t at = part * kPart; at < std::min(size, (part + 1) * kPart); at += sizeof(uint64_t)) {
      uint64_t word = 0;
      std::memcpy(&word, above.data() + at, sizeof word);
      sums.add(word);
    }
    words.parts[part] = sums.hash();
  }
  return words;
}

size_t CallerWords::equal_parts(const CallerWords& other) const {
  size_t equal = 0;
  for (size_t i = 0; i < parts.size(); ++i) equal += parts[i] == other.parts[i];
  return equal;
}

// What enters at `identity` now proves of the left frames with that identity: those with the same words above
// them lay in the very place that is used again.
void CallStack::settle_left(const FrameIdentity& identity, const CallerWords& above,
                            std::vector<Frame>& dead) {
  auto found = left_.index.find(identity);
  if (found == left_.index.end()) return;
  const Alike alike = found->second;
  for (LeftList::iterator newest : alike) {
    const auto end = std::next(newest);
    if (std::any_of(oldest_of_chain(newest), end,
                    [&](const Entry& entry) { return entry.frame.above == above; }))
      bury_left(newest, dead);
  }
}

// The same of the active chain, if `probe` is in it: else this is a tail call out of it.
void CallStack::settle_active(const FrameIdentity& identity, const CallerWords& above, ProbeId probe,
                              Timestamp now, std::vector<Frame>& dead) {
  for (size_t i = active_.size(); i > 0 && active_[i - 1].frame.identity == identity; --i) {
    if (active_[i - 1].frame.probe != probe) continue;
    if (active_[i - 1].frame.above == above)
      bury_active(i - 1, now, dead);
    else
      leave_behind([&](const Frame& frame) { return frame.identity != identity; }, now, dead);
    return;
  }
}

CallStack::LeftFrames::LeftFrames(const LeftFrames& other) : list(other.list) {
  std::unordered_map<const Entry*, LeftList::iterator> copies;
  auto copy = list.begin();
  for (const Entry& entry : other.list) copies.emplace(&entry, copy++);
  for (const auto& [identity, alike] : other.index)
    for (const auto& entry : alike) index[identity].push_back(copies.at(&*entry));
}

CallStack::LeftFrames& CallStack::LeftFrames::operator=(LeftFrames other) noexcept {
  list.swap(other.list);
  index.swap(other.index);
  return *this;
}

Frame& CallStack::enter(const FrameIdentity& identity, VirtAddr site, ProbeId probe, CallId call,
                        Timestamp now, std::vector<Frame>& dead, const CallerWords& above) {
  if (!left_.list.empty()) settle_left(identity, above, dead);
  // A frame with this stack pointer and another identity has lost its slot: it is left like those below.
  leave_behind(
      [&](const Frame& frame) { return frame.identity.sp > identity.sp || frame.identity == identity; }, now,
      dead);
  settle_active(identity, above, probe, now, dead);
  bool chained = !active_.empty() && active_.back().frame.identity == identity;
  if (const auto last = last_entered_.find(identity.sp); last != last_entered_.end() && !chained)
    last->second = next_age_;
  const auto frames_below = static_cast<unsigned>(depth());
  const bool recursive = active_of_[probe]++ > 0;
  active_.push_back(
      {{identity, above, probe, call, site, now, frames_below, chained, false, recursive}, next_age_++});
  return active_.back().frame;
}

FrameIdentity CallStack::as_entered(const FrameIdentity& at_return) const {
  const auto is_known = [&](const FrameIdentity& identity) {
    for (auto entry = active_.rbegin(); entry != active_.rend(); ++entry) {
      if (entry->frame.identity == identity) return true;
      if (entry->frame.identity.sp > identity.sp) break;
    }
    return left_.index.contains(identity);
  };
  const FrameIdentity bare = at_return.without_registers();
  return !is_known(at_return) && is_known(bare) ? bare : at_return;
}

void CallStack::leave(const FrameIdentity& identity, Timestamp now, std::vector<Frame>& returned,
                      std::vector<Frame>& dead, const CallerWords& above) {
  leave_behind(
      [&](const Frame& frame) { return frame.identity.sp > identity.sp || frame.identity == identity; }, now,
      dead);
  const bool active = !active_.empty() && active_.back().frame.identity == identity;
  auto found = left_.index.find(identity);
  if (found == left_.index.end()) {
    if (!active) return;
    do {
      settle_times(active_.size() - 1, now);
      returned.push_back(active_.back().frame);
      active_.pop_back();
    } while (returned.back().chained);
    return;
  }
  if (active) {
    // One of several: they are chosen from in one place.
    leave_behind([&](const Frame& frame) { return frame.identity != identity; }, now, dead);
    found = left_.index.find(identity);
  }
  const auto newest = most_like(found->second, above);
  resumes_ |= !active;  // else it is one of those that look alike, and may well be the active one
  const auto oldest = oldest_of_chain(newest);
  for (auto it = newest;; --it) {
    returned.push_back(it->frame);
    returned.back().duration = since(it->frame.entered, now);
    if (it == oldest) break;
  }
  forget_left(newest);
}

// A frame that was entered by a tail call, and another from it in turn, may have been left with its chain.
bool CallStack::leave_left_call(const FrameIdentity& identity, CallId call, Timestamp now,
                                std::vector<Frame>& returned) {
  const auto found = left_.index.find(identity);
  if (found == left_.index.end()) return false;
  Alike& alike = found->second;
  const auto entry =
      std::ranges::find_if(alike, [&](const LeftList::iterator& it) { return it->frame.call == call; });
  if (entry == alike.end()) return false;
  const LeftList::iterator newest = *entry;
  resumes_ = true;
  returned.push_back(newest->frame);
  returned.back().duration = since(newest->frame.entered, now);
  if (!newest->frame.chained) {
    forget_left(newest);
    return true;
  }
  *entry = std::prev(newest);
  left_.list.erase(newest);
  return true;
}

bool CallStack::leave_call(const FrameIdentity& identity, CallId call, Timestamp now,
                           std::vector<Frame>& returned, std::vector<Frame>& dead) {
  leave_behind([&](const Frame& frame) { return frame.identity.sp > identity.sp || frame.call == call; }, now,
               dead);
  if (active_.empty() || active_.back().frame.call != call)
    return leave_left_call(identity, call, now, returned);
  settle_times(active_.size() - 1, now);
  returned.push_back(active_.back().frame);
  active_.pop_back();
  return true;
}

void CallStack::unwind_to(VirtAddr sp, Timestamp now, std::vector<Frame>& dead) {
  leave_behind([&](const Frame& frame) { return frame.identity.sp >= sp; }, now, dead);
}

std::vector<Frame> CallStack::clear(Timestamp now) {
  settle_times(0, now);
  std::vector<Entry> all(left_.list.begin(), left_.list.end());
  all.insert(all.end(), active_.begin(), active_.end());
  std::sort(all.begin(), all.end(), [](const Entry& a, const Entry& b) { return a.age < b.age; });
  active_.clear();
  left_.list.clear();
  left_.index.clear();
  last_entered_.clear();
  std::vector<Frame> frames;
  frames.reserve(all.size());
  for (const Entry& entry : all) frames.push_back(entry.frame);
  return frames;
}

// The newest active frames, down to the first that `stays`, become left, in the order of their age.
template <typename Stays>
void CallStack::leave_behind(Stays stays, Timestamp now, std::vector<Frame>& dead) {
  size_t kept = active_.size();
  while (kept > 0 && !stays(active_[kept - 1].frame)) --kept;
  if (kept == active_.size()) return;
  settle_times(kept, now);
  for (size_t i = kept; i < active_.size(); ++i) keep_left(active_[i], dead);
  active_.resize(kept);
  while (left_.list.size() > kMaxLeft)
    bury_left(left_.index.at(left_.list.front().frame.identity).front(), dead);
}

// The active frames from `first` on are active no more.
void CallStack::settle_times(size_t first, Timestamp now) {
  for (size_t i = active_.size(); i-- > first;) {
    Frame& frame = active_[i].frame;
    frame.duration = since(frame.entered, now);
    frame.self = frame.duration - std::min(frame.duration, frame.inner);
    if (i > 0) active_[i - 1].frame.inner += frame.duration;
    --active_of_[frame.probe];
  }
}

void CallStack::keep_left(const Entry& entry, std::vector<Frame>& dead) {
  Alike& alike = left_.index[entry.frame.identity];
  if (!entry.frame.chained && alike.size() == kMaxAlike) bury_left(alike.front(), dead);
  last_entered_.try_emplace(entry.frame.identity.sp, entry.age);
  left_.list.push_back(entry);
  left_.list.back().frame.left = true;
  if (entry.frame.chained)
    alike.back() = std::prev(left_.list.end());
  else
    alike.push_back(std::prev(left_.list.end()));
}

void CallStack::bury_active(size_t first, Timestamp now, std::vector<Frame>& dead) {
  settle_times(first, now);
  for (size_t i = first; i < active_.size(); ++i) dead.push_back(active_[i].frame);
  active_.resize(first);
}

void CallStack::bury_left(LeftList::iterator newest, std::vector<Frame>& dead) {
  for (auto it = oldest_of_chain(newest); it != std::next(newest); ++it) dead.push_back(it->frame);
  forget_left(newest);
}

void CallStack::bury_left(const std::unordered_set<CallId>& calls, std::vector<Frame>& dead) {
  std::vector<LeftList::iterator> gone;
  for (const auto& [identity, alike] : left_.index)
    for (const LeftList::iterator& newest : alike)
      if (calls.contains(newest->frame.call)) gone.push_back(newest);
  std::ranges::sort(gone, {}, [](const LeftList::iterator& newest) { return newest->age; });
  for (const LeftList::iterator& newest : gone) bury_left(newest, dead);
}

void CallStack::forget_left(LeftList::iterator newest) {
  auto found = left_.index.find(newest->frame.identity);
  std::erase(found->second, newest);
  if (found->second.empty()) left_.index.erase(found);
  left_.list.erase(oldest_of_chain(newest), std::next(newest));
  if (left_.list.empty()) last_entered_.clear();
}

CallStack::LeftList::iterator CallStack::oldest_of_chain(LeftList::iterator newest) {
  while (newest->frame.chained) --newest;
  return newest;
}

}  // namespace rtrace::event
