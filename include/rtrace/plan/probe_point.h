// What the plan says about one place in one process's memory. Values: printed by --explain, compared by
// tests.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rtrace/base/address.h"
#include "rtrace/elf/loaded_object.h"

namespace rtrace::plan {

// -e and -l: call sites; -x: function entries; -x sdt:...: places that the program marks
enum class ProbeKind : uint8_t { plt, entry, sdt };

// What a probe is to a pair of SDT probes that are timed as one call.
enum class PairRole : uint8_t { none, begin, end };

// Index of a request (one -e, -l or -x of the command line) in Requests::all.
using RequestIndex = size_t;

struct ProbePoint {
  ProbeKind kind = ProbeKind::entry;
  VirtAddr address;        // where the thread must be seen: a stub, a function's entry, or a tail jump
  elf::ObjectId object{};  // the object that maps the address
  std::string name;        // as it is printed: the symbol's name that the rule of aliases picks
  std::vector<std::string> aliases;  // the other names of the address
  std::string library;               // printed after '@' for entries; empty for the main program's own
  std::string caller;                // printed before "->" for call sites; empty where it is hidden
  elf::ObjectId caller_object{};     // call sites: the object that calls
  // Set where a call site has no stub that serves: the probe stands on the callee's entry, and counts only
  // when the return address lies in the caller's executable segments, or when the thread came there over one
  // of the caller's tail jumps.
  bool only_from_caller = false;
  // The address is a `jmp *slot(%rip)` of the caller, or a `jmp *%reg` that may lead where the slot does,
  // followed by the entry: one call.
  bool tail_jump = false;
  // No instruction was found by which the caller calls through its slot: how it does so is not known, nor
  // where its tail jumps are.
  bool way_unknown = false;
  // The caller's GOT slot through which both of these go, where no stub goes through it too. 0: there is
  // none, or more than one.
  VirtAddr slot;
  bool no_return = false;  // a `.cold` part: it is jumped to, and has no return of its own
  bool clone = false;      // `.isra`, `.constprop`, `.part`: arguments are not what the prototype says ("~")
  std::string prototype_object;  // SONAME or basename of the callee's object where it is known: prototypes
                                 // are looked up under it
  PairRole pair = PairRole::none;
  std::string sdt_arguments;  // the operands as the note has them
  VirtAddr semaphore;         // to be raised while the probe stands; 0 where there is none
  std::vector<RequestIndex> requests;
  std::string reason;  // how this place was chosen, in words for --explain: "stub in .plt.sec", "callee's
                       // entry: no stub (-fno-plt)"
};

// A match that gets no probe, or not yet.
struct Decline {
  std::string name;
  std::string object;
  std::string reason;
  bool pending = false;  // may be resolved later (an IFUNC that nobody has bound yet)
  RequestIndex request{};
  VirtAddr resolver{};  // of that IFUNC; 0 where it is not that
};

struct Plan {
  std::vector<ProbePoint> points;  // by address, call sites before entries of the same address
  std::vector<Decline> declined;
};

}  // namespace rtrace::plan
