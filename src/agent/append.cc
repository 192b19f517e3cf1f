#include "append.h"

namespace rtrace::agent {
uint64_t ask(const Control& control, uint64_t page) {
  return owner_lives(control) ? rtrace_ask(page) : 0;
}

namespace {

bool is_read(const Control& control) {
  return mode_now(control) != Mode::off && owner_lives(control);
}

// True where the reader may have made room: a thread that stands at a breakpoint has had its ring read.
__attribute__((noinline)) bool wait_for_room(const Control& control) {
  auto& shared = *reinterpret_cast<SharedHeader*>(control.shared);
  if (control.on_full == OnFull::drop || !is_read(control)) return false;
  __atomic_add_fetch(&shared.asked, 1, __ATOMIC_RELAXED);
  ask(control);
  return is_read(control);
}

}  // namespace

uint64_t append_words(const Control& control, Slot& slot, const void* words, uint64_t count) {
  do {
    if (const uint64_t call = rtrace_append_words(&slot, words, count); call != 0) return call;
  } while (wait_for_room(control));
  return 0;
}

uint64_t append_pieces(const Control& control, const Job& job) {
  do {
    if (const uint64_t call = rtrace_append_pieces(job.slot, &job); call != 0) return call;
  } while (wait_for_room(control));
  return 0;
}

}  // namespace rtrace::agent
