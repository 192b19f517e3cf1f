#include "recordings.h"

namespace rtrace::session {

Recordings::Ring& Recordings::ring_of(uint64_t slot) {
  const auto known = rings_.find(slot);
  if (known != rings_.end()) return known->second;
  return rings_.emplace(slot, Ring{mech::RingReader(records_, slot, records_.read_up_to(slot)), 0})
      .first->second;
}

}  // namespace rtrace::session
