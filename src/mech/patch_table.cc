#include "rtrace/mech/patch_table.h"

#include <sys/random.h>

#include <algorithm>

#include "rtrace/base/error.h"

namespace rtrace::mech {

PatchLedger::PatchLedger(PatchTable& table) : table_(table) {
  uint64_t session = table.session;
  while (session == 0)
    if (getrandom(&session, sizeof session, 0) != sizeof session) throw Error::from_errno(errno, "getrandom");
  table.session = session;
}

PatchLedger::Index PatchLedger::publish(pid_t pid, VirtAddr address, std::span<const std::byte> original,
                                        std::span<const std::byte> written) {
  CHECK(original.size() == written.size() && original.size() <= Patch::kMaxLength);
  Index index = kNone;
  if (!free_.empty()) {
    index = free_.back();
    free_.pop_back();
  } else {
    uint64_t used = table_.used.load(std::memory_order_relaxed);
    if (used == PatchTable::kCapacity) return kNone;
    index = static_cast<Index>(used);
    table_.used.store(used + 1, std::memory_order_release);
  }
  Patch& patch = table_.patches[index];
  patch.length = static_cast<uint8_t>(original.size());
  patch.stands_in.store(0, std::memory_order_relaxed);
  patch.pid = pid;
  patch.address = address.value;
  std::copy(original.begin(), original.end(), std::as_writable_bytes(std::span(patch.original)).begin());
  std::copy(written.begin(), written.end(), std::as_writable_bytes(std::span(patch.written)).begin());
  patch.live.store(1, std::memory_order_release);
  return index;
}

void PatchLedger::stands_in(Index index, bool stands) {
  if (index != kNone)
    table_.patches[index].stands_in.store(static_cast<uint8_t>(stands), std::memory_order_relaxed);
}

void PatchLedger::withdraw(Index index) {
  if (index == kNone) return;
  table_.patches[index].live.store(0, std::memory_order_release);
  free_.push_back(index);
}

}  // namespace rtrace::mech
