#include "own_pages.h"

#include <unistd.h>

#include <memory>

#include "rtrace/base/mapping.h"

namespace rtrace::session {
namespace {

// Of the code that runs first: start_order.ld has the front end's, what both run, and the engine's side by
// side. Elsewhere there are none of these.
extern "C" const std::byte rtrace_front_end_code[] __attribute__((weak, visibility("hidden")));
extern "C" const std::byte rtrace_common_code[] __attribute__((weak, visibility("hidden")));
extern "C" const std::byte rtrace_engine_code[] __attribute__((weak, visibility("hidden")));
extern "C" const std::byte rtrace_engine_code_end[] __attribute__((weak, visibility("hidden")));

void bring_in(const std::byte* begin, const std::byte* end, Access access) {
  if (begin < end) populate({begin, end}, access);
}

// What malloc has at hand.
void bring_in_heap() {
  constexpr ptrdiff_t kMost = 256 << 10;
  const auto first = std::make_unique<std::byte[]>(1);
  const auto* end = static_cast<const std::byte*>(sbrk(0));
  if (end - first.get() <= kMost) bring_in(first.get(), end, Access::write);
}

// What the stack will grow into.
void bring_in_stack() {
  constexpr size_t kDepth = 16 << 10;
  const auto* here = static_cast<const std::byte*>(__builtin_frame_address(0));
  bring_in(here - kDepth, here, Access::write);
}

}  // namespace

void bring_in_front_end() {
  bring_in(rtrace_front_end_code, rtrace_engine_code, Access::read);
}

void bring_in_engine() {
  bring_in(rtrace_common_code, rtrace_engine_code_end, Access::read);
  bring_in_heap();
  bring_in_stack();
}

}  // namespace rtrace::session
