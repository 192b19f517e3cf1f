// When a jump may be written over the first bytes of a function: pure, on what the stopped threads show.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>

#include "rtrace/base/address.h"
#include "rtrace/mech/install.h"

namespace rtrace::mech {

// A thread as it stands while all are stopped. The words of its stack from rsp up, red zone included, are
// taken as they come: which of them are return addresses, and which the rip of a signal frame, cannot be
// told.
struct StandingThread {
  pid_t tid = 0;
  VirtAddr pc;
  std::span<const uint64_t> stack;
};

// Where nobody may stand, or come back to, when `covered` (arch::Prologue::range()) is overwritten: behind
// its first byte. The first byte itself becomes the jump: who comes there enters the function.
constexpr Range inside(Range covered) {
  return {covered.begin + 1, covered.end};
}

// Busy where a pc or a stack word lies in one of the `forbidden` ranges: inside() of what is overwritten, and
// the out-of-line copies of a breakpoint there, whose jump leads to inside. A word that is no address at all
// may look like one: the next try finds another stack. What is not seen: a pc kept elsewhere than on a
// thread's current stack, such as that of a coroutine which was switched away from by a signal handler.
std::optional<Busy> patch_conflicts(std::span<const Range> forbidden,
                                    std::span<const StandingThread> threads);

}  // namespace rtrace::mech
