#include "append.h"

#include <asm/unistd.h>

#include "system.h"

namespace rtrace::agent {
namespace {

constexpr int kFutexWait = 0, kFutexWake = 1;  // linux/futex.h

bool is_read(const Control& control, const SharedHeader& shared) {
  return mode_now(control) != Mode::off &&
         (__atomic_load_n(&shared.owner, __ATOMIC_ACQUIRE) & kOwnerDied) == 0;
}

// True where the reader may have made room. The thread sleeps until it has, or ten milliseconds.
__attribute__((noinline)) bool wait_for_room(const Control& control, Slot& slot) {
  auto& shared = *reinterpret_cast<SharedHeader*>(control.shared);
  if (control.on_full == OnFull::drop || !is_read(control, shared)) return false;
  const auto seen = static_cast<uint32_t>(__atomic_load_n(&slot.tail, __ATOMIC_ACQUIRE));
  __atomic_store_n(&slot.waiting, 1, __ATOMIC_SEQ_CST);
  __atomic_add_fetch(&shared.doorbell, 1, __ATOMIC_SEQ_CST);
  system_call(__NR_futex, reinterpret_cast<uint64_t>(&shared.doorbell), kFutexWake, 1);
  const uint64_t patience[2] = {0, 10'000'000};
  system_call(__NR_futex, reinterpret_cast<uint64_t>(&slot.tail), kFutexWait, seen,
              reinterpret_cast<uint64_t>(patience));
  return is_read(control, shared);
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
