// What has to be known of wrapped functions before the pages of a tracer that died may go.
#pragma once

#include <functional>
#include <vector>

#include "rtrace/mech/remains.h"
#include "rtrace/mech/trampolines.h"

namespace rtrace::mech {

bool is_int3(const ForeignBytes& bytes);
// Over a function's first instructions, to its wrapper or to a hop. Nobody can stand inside.
bool is_jump(const ForeignBytes& bytes);
// Which of all are hops, also where only what leads to them tells, and which is the foretelling call; these
// last, for until the jumps have gone threads come to them.
void order_jumps(std::vector<ForeignBytes>& all);
// Appends what was `found` by comparing code with files, but for int3s of which more is known, and for what
// lies in a jump that stands: any byte of its distance may look like one.
void add_outside_jumps(std::vector<ForeignBytes>& all, std::vector<ForeignBytes> found,
                       const tracee::ProcessMemory& memory);
// Whether memory has these bytes.
bool reads(const tracee::ProcessMemory& memory, VirtAddr at, const std::vector<std::byte>& bytes);
// Whether any of those that were found is still there, or a slot has been written to by the program, which
// may have kept what led to us.
bool jumps_stand(const tracee::ProcessMemory& memory, const Remains& remains);

// A wrapper that runs shows by its call, which has not returned: on whatever stack it does; but also one that
// was left for good. (Its first and last instructions show by the thread's pc.)
bool has_open_calls(const tracee::ProcessMemory& memory, const Remains& remains);
// Whether any word of its stack is an address in our code: a wrapper that runs has its return address there,
// and dead frames may have left some.
bool leads_to_wrapper(const StoppedThread& thread, const Remains& remains);

// By a short jump that could not be put back, or that a debugger's int3 hides.
bool is_led_to(VirtAddr hop, const tracee::ProcessMemory& memory, const Remains& remains);
// Whether a word of its stack, or its pc, is where a hop stands.
bool leads_to_hop(const StoppedThread& thread, const Remains& remains);

// That no wrapper comes to the call that foretells returns any more; `stopped` are all tasks of the memory.
// False where one may.
bool retire_call(const tracee::ProcessMemory& memory, const std::vector<tracee::MapsEntry>& maps,
                 const std::vector<pid_t>& stopped, const Remains& remains);

// To a child of vfork(2) or posix_spawn(3).
bool lends_memory(pid_t pid);

// Where records lie that nobody reads any more.
std::vector<Range> rings_of(const tracee::ProcessMemory& memory, const Remains& remains);
// Their memory goes, not their addresses: a signal may have interrupted an append, and the handler have left
// its stack for another, from which it comes back one day. `fit` makes the calls.
void free_records(const tracee::ProcessMemory& memory, const std::vector<tracee::MapsEntry>& maps, pid_t fit,
                  const Remains& remains);

// The pages stay mapped for whatever may come back to them, and are nothing that has to be repaired.
void forget_pages(const tracee::ProcessMemory& memory, const Remains& remains);

}  // namespace rtrace::mech
