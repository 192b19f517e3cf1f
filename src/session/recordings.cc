#include "recordings.h"

namespace rtrace::session {

Recordings::Ring& Recordings::ring_of(uint64_t slot) {
  return rings_.try_emplace(slot, Ring{mech::RingReader(records_, slot), 0}).first->second;
}

}  // namespace rtrace::session
