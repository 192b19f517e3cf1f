// One int3 in one address space.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "rtrace/agent/signal_calls.h"
#include "rtrace/arch/emulate.h"
#include "rtrace/arch/relocate.h"
#include "rtrace/base/address.h"
#include "rtrace/elf/loaded_object.h"
#include "rtrace/event/ids.h"
#include "rtrace/mech/patch_table.h"

namespace rtrace::mech {

// How often something is met. Pure.
class Heat {
 public:
  // More in one window are hot: to change what stands there pays soon.
  static constexpr uint32_t kHot = 200;
  static constexpr uint64_t kWindow = 100'000'000;  // ns

  // Another time, at `now` (monotonic ns). True where it is hot; then it is cold again.
  bool rises(uint64_t now) {
    if (now - since_ > kWindow) since_ = now, count_ = 0;
    if (++count_ <= kHot) return false;
    count_ = 0;
    return true;
  }

 private:
  uint64_t since_ = 0;
  uint32_t count_ = 0;
};

// The owners are why the int3 is there. It stays while it has any: nothing is ever unpatched to step over it.
struct BreakpointSite {
  VirtAddr address;
  std::byte saved{};                         // what the int3 stands on
  std::optional<arch::Emulation> emulation;  // how to pass without a copy
  VirtAddr copy;                             // the out-of-line copy; 0 where there is none
  std::vector<arch::ResumePoint> points;     // of the copy
  uint8_t copy_size = 0;
  PatchLedger::Index patch = PatchLedger::kNone;

  struct Owner {
    event::ProbeId probe{};
    elf::ObjectId caller{};  // of call sites: who calls
    bool operator==(const Owner&) const = default;
  };
  bool stray = false;               // no owner: its object has gone, and its int3 stands in another's code
  std::vector<Owner> probes;        // owners: calls and entries, in the order they are shown
  bool instants = false;            // some of them are no calls: SDT probes
  bool return_site = false;         // owner: calls that return here
  bool rendezvous = false;          // owner: the dynamic linker's hook
  agent::SignalCall signal_call{};  // owner: a watch on the program's SIGTRAP state
  bool alone = false;               // what leads through it is a call of that function of the C library
  // What the handler in the process may do in the place of the call.
  agent::SignalCall carried() const { return alone ? signal_call : agent::SignalCall::none; }
  bool stands_in() const { return copy && carried() != agent::SignalCall::none; }
  bool begins = false;       // of a mask_syscall: it blocks all, where others end what it began
  bool resting = false;      // its own byte stands, for it would be met where nothing can be done
  bool met_blocked = false;  // by a thread with all signals blocked
  bool initializer = false;  // owner: an object's first initializer, passed once when it has been relocated
  bool resolver = false;     // owner: an IFUNC's resolver, whose answer is waited for
  bool resolved = false;     // owner: the place to which such a resolver returned
  bool asks = false;         // owner: the recorder, which wants us to see the thread
  bool executes = false;     // owner: execve(), by which a child that is not followed begins its program
  // Owner: a function that sets a limit; which is said by its argument of that number, from 1 on, before it.
  uint8_t limits = 0;
  uint32_t met = 0;         // so many times, on whatever account
  Heat calls;               // that begin here
  bool considered = false;  // they were hot once
  Heat idle;                // passed for nothing: no call that was awaited returned
  uint32_t passed = 0;      // so many times

  bool watches_signals() const { return signal_call != agent::SignalCall::none; }
  bool serves_other_than_probes() const {
    return return_site || rendezvous || watches_signals() || initializer || resolver || resolved || asks ||
           executes || limits != 0;
  }
  bool serves_returns_only() const {
    return return_site && probes.empty() && !rendezvous && !watches_signals() && !initializer && !resolver &&
           !resolved && !asks && !executes && limits == 0;
  }
};

}  // namespace rtrace::mech
