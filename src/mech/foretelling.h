// The call that foretells the returns of functions behind borrowed frames (wrapper_stub.h): four bytes of
// padding that nothing of the program's comes to.
#pragma once

#include <span>

#include "rtrace/mech/trampolines.h"

namespace rtrace::mech {

// Lets all wrappers in `code` go on without the call, those too that run, so that its padding may have its
// own bytes again. `threads` are all that the memory has, and stand. False where one may still come to the
// call.
bool retire_foretelling(const tracee::ProcessMemory& memory, std::span<const Range> code, VirtAddr call,
                        std::span<const StoppedThread> threads);

}  // namespace rtrace::mech
