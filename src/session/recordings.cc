#include "recordings.h"

#include <atomic>
#include <utility>

namespace rtrace::session {

Recordings::Ring& Recordings::ring_of(uint64_t slot) {
  return rings_.try_emplace(slot, Ring{mech::RingReader(records_, slot), 0}).first->second;
}

uint64_t Recordings::unplaced() {
  const uint64_t now = std::atomic_ref<uint64_t>(records_.header().unplaced).load();
  return now - std::exchange(unplaced_, now);
}

}  // namespace rtrace::session
