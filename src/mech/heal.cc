#include "rtrace/mech/heal.h"

#include <cstring>
#include <map>
#include <memory>

#include "rtrace/base/error.h"
#include "rtrace/mech/semaphores.h"
#include "rtrace/tracee/process_memory.h"

namespace rtrace::mech {
namespace {

using Memories = std::map<pid_t, std::unique_ptr<tracee::ProcessMemory>>;

// nullptr where the process is gone.
const tracee::ProcessMemory* memory_of(pid_t pid, Memories& memories) {
  auto [entry, fresh] = memories.try_emplace(pid);
  if (!fresh) return entry->second.get();
  try {
    entry->second = std::make_unique<tracee::ProcessMemory>(pid);
  } catch (const Error&) {
    return nullptr;
  }
  return entry->second.get();
}

bool put_back(const Patch& patch, const tracee::ProcessMemory& memory) {
  std::byte now[Patch::kMaxLength];
  const size_t length = patch.length;
  // More than an int3 is code that a thread may be in the middle of: it lies where nothing of the program
  // runs.
  if (length != 1 || memory.read_forced(VirtAddr{patch.address}, {now, length}) != length) return false;
  if (std::memcmp(now, patch.written, length) != 0) return false;
  return memory.write(VirtAddr{patch.address}, std::as_bytes(std::span(patch.original, length))) == 0;
}

}  // namespace

size_t heal(PatchTable& table, Standing which) {
  Memories memories;
  size_t healed = 0;
  const uint64_t used = table.used.load(std::memory_order_acquire);
  for (uint64_t i = 0; i < used && i < PatchTable::kCapacity; ++i) {
    Patch& patch = table.patches[i];
    if (patch.live.load(std::memory_order_acquire) == 0) continue;
    if (which == Standing::but_stand_ins && patch.stands_in != 0) continue;
    const auto* memory = memory_of(patch.pid, memories);
    if (memory != nullptr && patch.length == 0) (void)lower_semaphore(*memory, VirtAddr{patch.address});
    if (memory != nullptr && put_back(patch, *memory)) ++healed;
    patch.live.store(0);
  }
  return healed;
}

}  // namespace rtrace::mech
