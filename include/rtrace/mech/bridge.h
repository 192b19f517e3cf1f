// How the blob's SIGTRAP handler comes to stand in a process, and how it goes.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "rtrace/base/address.h"
#include "rtrace/tracee/process_memory.h"
#include "rtrace/tracee/remote_call.h"

namespace rtrace::mech {

// Where a remote call can be made: a task in a consumed ptrace-stop, fit for it, and our pages in its memory.
struct BridgeSite {
  pid_t stopped = 0;
  const tracee::ProcessMemory& memory;
  VirtAddr gadget;
  Range frame_area;
  VirtAddr handler, restorer;
};

// Puts the handler where SIGTRAP has its default action. Empty where it stands now, else why it does not. The
// second is for a remote call of that task that is being made anyway.
std::string raise_bridge(const BridgeSite& at);
std::string raise_bridge(const BridgeSite& at, tracee::RemoteCall& remote);

// Gives SIGTRAP its default action again, but only where the handler is still ours.
enum class Lowered : uint8_t {
  yes,
  was_not_ours,
  failed,  // no system call could be made: the handler may stand, and needs its pages
};
[[nodiscard]] Lowered lower_bridge(const BridgeSite& at);

}  // namespace rtrace::mech
