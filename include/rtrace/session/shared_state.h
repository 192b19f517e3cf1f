// The memory that front end and engine share, and the few words they say to each other.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>

#include "rtrace/base/mapping.h"
#include "rtrace/mech/patch_table.h"
#include "rtrace/session/output_ring.h"
#include "rtrace/sink/summary_sink.h"

namespace rtrace::session {

// In an order in which what a trace without a table touches lies side by side: each page of it costs a fault
// in each process, and each 2 MiB a page table.
struct Shared {
  sink::SummaryTable summary;
  OutputRing output;
  std::atomic<uint32_t> detach_requested;  // front end: let go of everything and finish
  std::atomic<uint32_t> attach_failed;     // engine: at least one -p could not be attached
  std::atomic<uint32_t> nothing_traced;    // engine: no -p could, and there is no command
  std::atomic<uint32_t> wrapping;          // engine: threads may have recorded what it has not read yet
  std::atomic<uint32_t> moment;            // of the engine (rtrace/base/moment.h)
  mech::PatchTable patches;
};

// One message each way, over a SOCK_SEQPACKET pair. The end of file is the other side's death.
struct ToEngine {
  pid_t launch = 0;  // seize this process, which waits before its exec
};
struct ToFrontEnd {
  enum class Kind : uint32_t { seized, seize_failed, done };
  Kind kind = Kind::done;
  int error_number = 0;
};

class SharedState {
 public:
  SharedState() : memory_(Mapping::shared(sizeof(Shared))) {}
  // Zeroed pages are a valid Shared: its atomics are plain words.
  Shared& operator*() const { return *reinterpret_cast<Shared*>(memory_.data()); }
  Shared* operator->() const { return &**this; }

 private:
  Mapping memory_;
};

}  // namespace rtrace::session
