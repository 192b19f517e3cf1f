// What was mapped in a process after it had forked, for the child that shows the same pages.
#include <sys/mman.h>
#include <sys/syscall.h>

#include <vector>

#include "announced.h"
#include "rtrace/arch/placement.h"
#include "rtrace/mech/foothold.h"

namespace rtrace::mech {
namespace {

// The page that makes it known last, and as a whole.
bool write_all(const tracee::ProcessMemory& memory, VirtAddr at, std::span<const std::byte> bytes) {
  const auto rest = bytes.subspan(arch::kPageSize);
  return (rest.empty() || memory.write(at + arch::kPageSize, rest) == 0) &&
         memory.write(at, bytes.first(arch::kPageSize)) == 0;
}

}  // namespace

std::string Foothold::copy_to_child(const Means& child, tracee::RemoteCall& remote, Range range,
                                    int protection, const tracee::ProcessMemory& own) const {
  std::vector<std::byte> bytes(range.size());
  if (own.read(range.begin, bytes) != bytes.size()) return "its parent has ended";
  const auto write = [&](VirtAddr at) { return write_all(child.memory, at, bytes); };
  return map_announced(remote, child.memory, blob_, range, protection, write).failure;
}

// The handler goes from one table to the other by one aligned word.
std::string Foothold::move_table_of_child(const Means& child, tracee::RemoteCall& remote,
                                          const tracee::ProcessMemory& own) const {
  const VirtAddr word = blob_ + offsetof(agent::Blob, table);
  const auto old = child.memory.read_value<uint64_t>(word);
  if (!old) return "its memory cannot be read";
  if (!is_ours(child.memory, table_.begin))
    if (std::string failure = copy_to_child(child, remote, table_, PROT_READ, own); !failure.empty())
      return failure;
  if (*old == table_.begin.value) return {};
  const auto head = child.memory.read_value<agent::MappingHeader>(VirtAddr{*old});
  if (child.memory.write_value(word, table_.begin.value) != 0) return kUnwritable;
  if (head && is_ours(child.memory, VirtAddr{*old})) (void)remote.call(SYS_munmap, {*old, head->size});
  return {};
}

bool Foothold::is_whole_in(const tracee::ProcessMemory& child) const {
  if (!exists()) return true;
  const auto table = child.read_value<uint64_t>(blob_ + offsetof(agent::Blob, table));
  if (table != table_.begin.value || (control_.begin && !is_ours(child, control_.begin))) return false;
  const std::vector<Range> ranges = arena_.ranges();
  return std::ranges::all_of(ranges, [&](Range range) { return is_ours(child, range.begin); });
}

std::string Foothold::complete_child(const Means& child, const tracee::ProcessMemory& own) const {
  if (control_.begin && !is_ours(child.memory, control_.begin))
    return "it was forked before the recorder was there";
  tracee::RemoteCall remote(child.stopped, child.memory, gadget(), frame_area_);
  for (Range range : arena_.ranges()) {
    if (is_ours(child.memory, range.begin)) continue;
    std::string failure = copy_to_child(child, remote, range, PROT_READ | PROT_EXEC, own);
    if (!failure.empty()) return failure;
  }
  return move_table_of_child(child, remote, own);
}

}  // namespace rtrace::mech
