#include "rtrace/session/replays.h"

#include <algorithm>

namespace rtrace::session {
namespace {

// Far above is another stack: a handler's own (sigaltstack) says nothing about the one it interrupted.
constexpr uint64_t kSameStack = uint64_t{8} << 20;

bool is_above(VirtAddr sp, VirtAddr place) {
  return place < sp && sp - place < kSameStack;
}

}  // namespace

void Replays::taken_out(VirtAddr site, VirtAddr sp, Handler handler) {
  places_.push_back({site, sp, handler == Handler::none});
}

void Replays::interrupted(VirtAddr pc, VirtAddr sp) {
  for (Place& place : places_)
    if (place.site == pc && place.sp == sp) place.returned = false;
}

void Replays::handler_returns(VirtAddr pc, VirtAddr sp) {
  // To the same stack pointer but another rip: the handler has skipped the instruction.
  std::erase_if(places_, [&](const Place& place) { return place.sp == sp && place.site != pc; });
  for (Place& place : places_)
    if (place.sp == sp) place.returned = true;
  unwound_to(sp);
}

void Replays::unwound_to(VirtAddr sp) {
  std::erase_if(places_, [&](const Place& place) { return is_above(sp, place.sp); });
}

void Replays::moved(VirtAddr own, VirtAddr sp, VirtAddr copy, uint64_t word) {
  std::erase_if(moved_, [&](const Moved& one) { return one.sp == sp; });
  moved_.push_back({own, sp, copy, word});
}

VirtAddr Replays::back_to_copy(VirtAddr pc, VirtAddr sp) {
  const auto found = std::ranges::find(moved_, sp, &Moved::sp);
  if (found == moved_.end()) return {};
  const VirtAddr copy = found->own == pc ? found->copy : VirtAddr{};  // else the handler sends it elsewhere
  moved_.erase(found);
  return copy;
}

bool Replays::take(VirtAddr site, VirtAddr sp) {
  unwound_to(sp);
  const auto found = std::find_if(places_.begin(), places_.end(),
                                  [&](const Place& place) { return place.site == site && place.sp == sp; });
  if (found == places_.end()) return false;
  const bool returned = found->returned;
  places_.erase(found);
  return returned;
}

bool Replays::knows(VirtAddr pc, VirtAddr sp) const {
  return std::any_of(places_.begin(), places_.end(),
                     [&](const Place& place) { return place.site == pc && place.sp == sp; });
}

bool Replays::awaiting() const {
  return !moved_.empty() ||
         std::any_of(places_.begin(), places_.end(), [](const Place& place) { return !place.returned; });
}

}  // namespace rtrace::session
