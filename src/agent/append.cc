#include "append.h"

#include "summaries.h"
#include "system.h"

namespace rtrace::agent {
uint64_t ask(const Control& control, uint64_t page) {
  return owner_lives(control) ? rtrace_ask(page) : 0;
}

__attribute__((noinline, cold)) void ask_within(const Control& control, Slot& slot, uint64_t page) {
  const uint64_t then = time_stamp_counter();
  (void)ask(control, page);
  add_alone(slot.questions, time_stamp_counter() - then);
}

namespace {

bool is_read(const Control& control) {
  return mode_now(control) != Mode::off && owner_lives(control);
}

// True where the reader may have made room: a thread that stands at a breakpoint has had its ring read. A
// slot without a ring is a fork child's, which was its parent's when this began.
__attribute__((noinline)) bool wait_for_room(const Control& control, Slot& slot) {
  auto* const shared = reinterpret_cast<SharedHeader*>(once(control.shared));
  if (shared == nullptr || slot.capacity == 0 || control.on_full == OnFull::drop || !is_read(control))
    return false;
  __atomic_add_fetch(&shared->asked, 1, __ATOMIC_RELAXED);
  ask_within(control, slot);
  return is_read(control);
}

}  // namespace

uint64_t append_words(const Control& control, Slot& slot, const void* words, uint64_t count) {
  do {
    if (const uint64_t call = rtrace_append_words(&slot, words, count); call != 0) return call;
  } while (wait_for_room(control, slot));
  return 0;
}

uint64_t append_pieces(const Control& control, const Job& job) {
  do {
    if (const uint64_t call = rtrace_append_pieces(job.slot, &job); call != 0) return call;
  } while (wait_for_room(control, *job.slot));
  return 0;
}

}  // namespace rtrace::agent
