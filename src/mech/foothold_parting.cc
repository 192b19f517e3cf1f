// What stays of the recorder's memory in a process that is let go of while calls by trampoline are open.
#include <sys/mman.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "announced.h"
#include "borrowed_gadget.h"
#include "rtrace/agent/recorder.h"
#include "rtrace/arch/placement.h"
#include "rtrace/base/text.h"
#include "rtrace/mech/foothold.h"

namespace rtrace::mech {

// The mapping stays where it was, and Control says again where, for the child's thread may be about to look
// and to write there: a record finds no ring and no owner. Without functions, which a wiped Control has not
// either.
std::string Foothold::part(const Means& means, const tracee::ProcessMemory& parent) const {
  if (!existed() || !shared_.begin) return {};
  auto control = parent.read_value<agent::Control>(control_.begin + agent::kControlOffset);
  if (!control) return "its parent has ended";
  control->functions = 0;
  const agent::MappingHeader own = header(agent::kSharedMapping, shared_.size());
  const auto bytes = std::as_bytes(std::span(&own, 1));
  return part_from(means, *control, {{0, {bytes.begin(), bytes.end()}}});
}

std::string Foothold::part_for_good(const Means& means, const Pieces& kept) {
  if (!existed() || !shared_.begin) return {};
  const auto control = means.memory.read_value<agent::Control>(control_.begin + agent::kControlOffset);
  if (!control) return "its memory cannot be read";
  std::string failure = part_from(means, *control, kept);
  if (failure.empty()) shared_.end = shared_.begin + size_without_rings(*control);
  return failure;
}

uint64_t Foothold::size_without_rings(const agent::Control& control) const {
  return align_up(control.rings - shared_.begin.value, arch::kPageSize);
}

// The header, which fork children may share, says first what is left: what the program maps in its place is
// not ours, nor is it in children that are yet to come.
std::string Foothold::unmap_rings(const Means& means) {
  if (!existed() || !shared_.begin) return {};
  const auto control = means.memory.read_value<agent::Control>(control_.begin + agent::kControlOffset);
  if (!control) return "its memory cannot be read";
  BorrowedGadget borrowed(means.memory, &means.ledger, means.slack);
  if (!borrowed.failure().empty()) return borrowed.failure();
  const uint64_t size = size_without_rings(*control);
  if (means.memory.write_value(shared_.begin + offsetof(agent::MappingHeader, size), size) != 0)
    return "its memory cannot be written";
  tracee::RemoteCall remote(means.stopped, means.memory, borrowed.address());
  const auto answer = remote.call(SYS_munmap, {shared_.begin.value + size, shared_.size() - size});
  if (answer != 0) return "the thread could not make the system call";
  shared_.end = shared_.begin + size;
  return {};
}

namespace {

// The page that makes it known last, and as a whole.
bool write_parted(const tracee::ProcessMemory& memory, VirtAddr at, uint64_t size,
                  const Foothold::Pieces& kept) {
  std::array<std::byte, arch::kPageSize> first_page{};
  bool done = true;
  for (const auto& [offset, bytes] : kept) {
    const size_t in_first =
        offset < first_page.size() ? std::min(bytes.size(), first_page.size() - offset) : 0;
    if (in_first > 0) std::memcpy(first_page.data() + offset, bytes.data(), in_first);
    if (in_first < bytes.size())
      done &= memory.write(at + offset + in_first, std::span(bytes).subspan(in_first)) == 0;
  }
  std::memcpy(first_page.data() + offsetof(agent::MappingHeader, size), &size, sizeof size);
  std::memcpy(first_page.data() + offsetof(agent::SharedHeader, owner), &agent::kOwnerDied,
              sizeof agent::kOwnerDied);
  return memory.write(at, first_page) == 0 && done;
}

}  // namespace

// In one step, whenever we die: what is put in the mapping's place is whole. Fork children of this memory,
// too, may be about to look at Control.
std::string Foothold::part_from(const Means& means, const agent::Control& as, const Pieces& kept) const {
  BorrowedGadget borrowed(means.memory, &means.ledger, means.slack);
  if (!borrowed.failure().empty()) return borrowed.failure();
  tracee::RemoteCall remote(means.stopped, means.memory, borrowed.address());
  const uint64_t size = size_without_rings(as);
  const auto write = [&](VirtAddr at) { return write_parted(means.memory, at, size, kept); };
  const Mapped spare = map_announced(remote, means.memory, blob_, {{}, VirtAddr{size}}, PROT_READ, write);
  if (!spare.failure.empty()) return spare.failure;
  const VirtAddr at = spare.address;
  const Announcement writable(means.memory, blob_, {at, at + size});
  bool done = remote.call(SYS_mprotect, {at.value, size, PROT_READ | PROT_WRITE}) == 0;
  const VirtAddr control_at = control_.begin + agent::kControlOffset;
  agent::Control control = as;
  control.mode = agent::Mode::off;
  constexpr uint64_t kReplace = MREMAP_MAYMOVE | MREMAP_FIXED;
  done = done && remote.call(SYS_mremap, {at.value, size, size, kReplace, shared_.begin.value}) ==
                     static_cast<int64_t>(shared_.begin.value);
  if (done)
    (void)remote.call(SYS_munmap, {shared_.begin.value + size, shared_.size() - size});
  else
    (void)remote.call(SYS_munmap, {at.value, size});
  done = done && means.memory.write_value(control_at, control) == 0;
  done =
      done && remote.call(SYS_madvise, {control_at.value, arch::kPageSize, uint64_t{MADV_KEEPONFORK}}) == 0;
  return done ? std::string() : "its memory cannot be written";
}

}  // namespace rtrace::mech
