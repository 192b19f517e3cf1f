// Which slot is whose.
#pragma once

#include <cstdint>

#include "rtrace/agent/recorder.h"
#include "system.h"

namespace rtrace::agent {

// The slot of the calling thread, claimed by this call where it has none; nullptr where all are taken, which
// is counted, or where its records would be mixed up with another task's, or where Control is empty.
Slot* find_slot(const Control& control, uint64_t thread);

// The same, at nearly no cost where the slot is the first that the hash leads to.
inline Slot* own_slot(const Control& control) {
  const uint64_t thread = thread_pointer(), slots = once(control.slots);
  if (slots == 0) return nullptr;
  auto* slot = reinterpret_cast<Slot*>(slots) + slot_of(thread, control.slot_bits);
  return slot->thread == thread ? slot : find_slot(control, thread);
}

}  // namespace rtrace::agent
