// Whether a function may be wrapped by a trampoline, and how: what can be said of a probe without looking at
// its code or at who runs it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "probe_registry.h"
#include "rtrace/elf/loaded_object.h"
#include "rtrace/mech/trampolines.h"
#include "rtrace/session/borrowed_frames.h"

namespace rtrace::session {

// What wrappers do where there are any: nothing but the totals is asked for, or each call.
agent::Mode recording_of(const Options& options);

// Why nothing that these options ask for can be told of wrapped calls; empty where it can.
std::string why_no_wrappers(const Options& options);

// Why this function gets no wrapper; empty where nothing speaks against it. `defined_in` holds its code.
std::string why_not_wrapped(const plan::ProbePoint& point, const Probe& probe,
                            const elf::LoadedObject& defined_in, const Options& options);

// Why a wrapper could not tell whose calls it sees; empty where it can.
std::string why_not_told(const plan::ProbePoint& point);

// What the caller of a function may have put into memory for it. Its prototype is known.
ArgumentArea arguments_in_memory(const plan::ProbePoint& point, const Probe& probe);

// Whether it may be unwound through, and so needs a borrowed frame: all but what is known to call nothing of
// the program's and to be no cancellation point.
bool needs_borrowed_frame(const plan::ProbePoint& point, const elf::LoadedObject& defined_in);

// Whether a failure of it does. Its prototype is known.
bool sets_errno(const Probe& probe);

// How its calls are counted or recorded. `errno_offset` from the thread pointer, where it is known.
mech::Trampolines::Function wrapped_function(const plan::ProbePoint& point, const Probe& probe,
                                             const Options& options, std::optional<int64_t> errno_offset);

}  // namespace rtrace::session
