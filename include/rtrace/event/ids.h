// Identities in the stream of events, as types that cannot be mixed up.
#pragma once

#include <sys/types.h>

#include <compare>
#include <cstdint>
#include <functional>

namespace rtrace::event {

// A tid is no identity: the kernel gives it out again. The serial is ours and never is.
struct TraceeId {
  pid_t pid = 0;
  pid_t tid = 0;
  uint32_t serial = 0;
  auto operator<=>(const TraceeId&) const = default;
};

// A probe point of the plan, numbered by the session in the order of their making.
enum class ProbeId : uint32_t {};

// One live or finished call; never used twice in a run.
enum class CallId : uint64_t {};

// Nanoseconds. `realtime` is the epoch's, for stamps; `monotonic` for durations.
struct Timestamp {
  uint64_t realtime = 0;
  uint64_t monotonic = 0;
};

}  // namespace rtrace::event
