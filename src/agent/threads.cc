#include "threads.h"

#include <asm/unistd.h>

#include "append.h"
#include "summaries.h"
#include "system.h"

namespace rtrace::agent {
namespace {

struct Place {
  Slot* found = nullptr;
  Slot* vacant = nullptr;
};

Place look(const Control& control, uint64_t thread) {
  auto* slots = reinterpret_cast<Slot*>(control.slots);
  const uint64_t mask = (uint64_t{1} << control.slot_bits) - 1;
  uint64_t index = slot_of(thread, control.slot_bits);
  Place place;
  for (uint64_t looked = 0; looked < kLongestChain && looked <= mask; ++looked, index = (index + 1) & mask) {
    Slot& slot = slots[index];
    const uint64_t holder = __atomic_load_n(&slot.thread, __ATOMIC_ACQUIRE);
    if ((holder & ~Slot::kStates) == thread) {
      place.found = &slot;
      return place;
    }
    if (place.vacant == nullptr && holder <= Slot::kGivenBack) place.vacant = &slot;
    if (holder == Slot::kFree) return place;
  }
  return place;
}

// A handler that interrupts this may claim a slot for the same thread: the first in the chain is the one that
// counts, and the other goes back.
Slot* take_vacant(const Control& control, uint64_t thread) {
  while (true) {
    const Place place = look(control, thread);
    if (place.found != nullptr || place.vacant == nullptr) return place.found;
    uint64_t holder = __atomic_load_n(&place.vacant->thread, __ATOMIC_RELAXED);
    if (holder > Slot::kGivenBack ||
        !__atomic_compare_exchange_n(&place.vacant->thread, &holder, thread | Slot::kClaiming, false,
                                     __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
      continue;
    Slot* const first = look(control, thread).found;
    if (first == place.vacant) return first;
    __atomic_store_n(&place.vacant->thread, Slot::kGivenBack, __ATOMIC_RELEASE);
    return first;
  }
}

uint64_t index_of(const Control& control, const Slot& slot) {
  return (reinterpret_cast<uint64_t>(&slot) - control.slots) / sizeof(Slot);
}

// The ring says whose it is from here on before anything else is in it. A handler that interrupts this does
// the same once more.
bool settle(const Control& control, Slot& slot) {
  auto tid = static_cast<int32_t>(ask(control));
  if (!owner_lives(control)) return false;
  if (tid == 0) tid = static_cast<int32_t>(system_call(__NR_gettid));  // no tracer, but ourselves
  const uint64_t index = index_of(control, slot);
  slot.ring = control.rings + index * control.ring_bytes;
  slot.capacity = control.ring_bytes;
  slot.name = call_of(index, 0);
  slot.room_end = 0;
  slot.index_row = control.summary_index + index * control.functions * sizeof(uint32_t);
  auto& shared = *reinterpret_cast<SharedHeader*>(control.shared);
  __atomic_or_fetch(&shared.used[index / 64], uint64_t{1} << index % 64, __ATOMIC_RELEASE);
  __atomic_store_n(&slot.tid, tid, __ATOMIC_RELEASE);
  // A child that a handler has forked meanwhile has no rings: one that it was given by this it must not keep.
  if (!owner_lives(control)) {
    slot.room_end = 0;
    slot.capacity = 0;
    return false;
  }
  if (control.mode == Mode::count) {
    forget_open_calls(control, slot);
    return true;
  }
  ThreadRecord record{};
  record.head = {kThread, sizeof record / 8, sizeof record / 8, 0};
  record.ticks = time_stamp_counter();
  record.held = slot.held;
  record.tid = static_cast<uint64_t>(tid);
  record.thread_pointer = slot.thread & ~Slot::kStates;
  return append_words(control, slot, &record, sizeof record / 8) != 0;
}

}  // namespace

Slot* find_slot(const Control& found, uint64_t thread) {
  alignas(Control) ControlRoom room;
  if (!copy_whole(found, room)) return nullptr;
  const Control& control = *reinterpret_cast<const Control*>(room);
  Slot* slot = take_vacant(control, thread);
  if (slot != nullptr) {
    uint64_t holder = __atomic_load_n(&slot->thread, __ATOMIC_ACQUIRE);
    if (holder == thread) return slot;
    if ((holder & Slot::kMuted) != 0 && static_cast<int32_t>(ask(control)) != slot->tid) return nullptr;
    if ((holder & Slot::kClaiming) == 0) return slot;
    if (settle(control, *slot)) {
      __atomic_compare_exchange_n(&slot->thread, &holder, holder & ~Slot::kClaiming, false, __ATOMIC_ACQ_REL,
                                  __ATOMIC_RELAXED);
      return slot;
    }
  }
  __atomic_add_fetch(&reinterpret_cast<SharedHeader*>(control.shared)->unplaced, 1, __ATOMIC_RELAXED);
  return nullptr;
}

}  // namespace rtrace::agent
