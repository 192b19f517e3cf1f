#include "rtrace/mech/patch.h"

#include <fmt/format.h>

#include <algorithm>

namespace rtrace::mech {
namespace {

bool forbidden_at(std::span<const Range> forbidden, VirtAddr address) {
  return std::any_of(forbidden.begin(), forbidden.end(),
                     [&](const Range& range) { return range.contains(address); });
}

}  // namespace

std::optional<Busy> patch_conflicts(std::span<const Range> forbidden,
                                    std::span<const StandingThread> threads) {
  for (const StandingThread& thread : threads) {
    if (forbidden_at(forbidden, thread.pc))
      return Busy{fmt::format("thread {} stands at {}, inside what is overwritten", thread.tid, thread.pc)};
    auto word = std::find_if(thread.stack.begin(), thread.stack.end(),
                             [&](uint64_t value) { return forbidden_at(forbidden, {value}); });
    if (word != thread.stack.end())
      return Busy{
          fmt::format("the stack of thread {} holds {:#x}, inside what is overwritten", thread.tid, *word)};
  }
  return std::nullopt;
}

}  // namespace rtrace::mech
