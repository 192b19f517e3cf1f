// How the blob's SIGTRAP handler comes to stand in a process, and how it goes.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "rtrace/agent/abi.h"
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
  // The handler that goes in front of one of the program's own, and where that one is noted.
  VirtAddr screen, own_handler;
};

// That of a blob which stands there.
BridgeSite bridge_site(pid_t stopped, const tracee::ProcessMemory& memory, VirtAddr blob,
                       const agent::Blob& head);

// Of the handler that carries threads over int3s once we have died.
enum class Bridge : uint8_t {
  stands,   // for the default action
  screens,  // in front of the program's own handler, which gets what is not ours
  due,      // the program has a handler of its own, which the first has to be in front of
  absent,
};
struct Raised {
  Bridge bridge = Bridge::absent;
  std::string reason;  // why it does not stand
};

// Puts it where SIGTRAP has its default action. The second is for a remote call of that task that is being
// made anyway.
Raised raise_bridge(const BridgeSite& at);
Raised raise_bridge(const BridgeSite& at, tracee::RemoteCall& remote);
// Puts it in front of a handler of the program's, which shows to a program that asks for its action.
Raised raise_screen(const BridgeSite& at);

// Gives SIGTRAP its default action again, or the program's own, but only where the handler is still ours.
enum class Lowered : uint8_t {
  yes,
  was_not_ours,
  failed,  // no system call could be made: the handler may stand, and needs its pages
};
[[nodiscard]] Lowered lower_bridge(const BridgeSite& at);

}  // namespace rtrace::mech
