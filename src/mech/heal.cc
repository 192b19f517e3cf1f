#include "rtrace/mech/heal.h"

#include <csignal>
#include <cstring>
#include <map>
#include <memory>

#include "rtrace/base/error.h"
#include "rtrace/mech/semaphores.h"
#include "rtrace/tracee/proc_fs.h"
#include "rtrace/tracee/process_memory.h"

namespace rtrace::mech {
namespace {

struct Healed {
  std::unique_ptr<tracee::ProcessMemory> memory;  // none where it is gone
  bool catches_trap = false;
};
using Processes = std::map<pid_t, Healed>;

const Healed& process_of(pid_t pid, Processes& processes) {
  auto [entry, fresh] = processes.try_emplace(pid);
  if (!fresh) return entry->second;
  try {
    entry->second.memory = std::make_unique<tracee::ProcessMemory>(pid);
  } catch (const Error&) {
    return entry->second;
  }
  const auto status = tracee::read_status(pid);
  entry->second.catches_trap = status && (status->caught & tracee::signal_bit(SIGTRAP)) != 0;
  return entry->second;
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
  Processes processes;
  size_t healed = 0;
  const uint64_t used = table.used.load(std::memory_order_acquire);
  for (uint64_t i = 0; i < used && i < PatchTable::kCapacity; ++i) {
    Patch& patch = table.patches[i];
    if (patch.live.load(std::memory_order_acquire) == 0) continue;
    const auto& [memory, catches_trap] = process_of(patch.pid, processes);
    if (which == Standing::but_stand_ins && catches_trap && patch.stands_in != 0) continue;
    if (memory != nullptr && patch.length == 0) (void)lower_semaphore(*memory, VirtAddr{patch.address});
    if (memory != nullptr && put_back(patch, *memory)) ++healed;
    patch.live.store(0);
  }
  return healed;
}

}  // namespace rtrace::mech
