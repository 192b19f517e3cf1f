// How an address space gets pages for out-of-line copies: a remote mmap, the first of them from borrowed
// slack.
#include <sys/mman.h>
#include <sys/syscall.h>

#include <cstring>

#include "rtrace/arch/placement.h"
#include "rtrace/base/error.h"
#include "rtrace/base/log.h"
#include "rtrace/mech/address_space.h"
#include "rtrace/tracee/remote_call.h"

namespace rtrace::mech {
namespace {

constexpr uint64_t kSmallestChunk = uint64_t{64} << 10;
// The first chunk begins with the gadget and room for an rt_sigreturn frame with all vector state of today's
// processors (AMX tiles included).
constexpr uint64_t kFrameArea = uint64_t{16} << 10;

uint64_t round_up(uint64_t value, uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

// The gadget's bytes on loan in an object's slack; what was there comes back when this goes.
class BorrowedGadget {
 public:
  BorrowedGadget(const tracee::ProcessMemory& memory, PatchLedger& ledger, pid_t pid, VirtAddr at)
      : memory_(memory), ledger_(ledger), at_(at) {
    auto gadget = std::as_bytes(std::span(tracee::kRemoteCallGadget));
    if (memory.read_forced(at, original_) != original_.size()) return;
    index_ = ledger.publish(pid, at, original_, gadget);
    if (index_ == PatchLedger::kNone) return;
    usable_ = memory.write(at, gadget) == 0;
  }
  ~BorrowedGadget() {
    if (usable_) (void)memory_.write(at_, original_);
    ledger_.withdraw(index_);
  }
  BorrowedGadget(const BorrowedGadget&) = delete;
  BorrowedGadget& operator=(const BorrowedGadget&) = delete;
  bool usable() const { return usable_; }

 private:
  const tracee::ProcessMemory& memory_;
  PatchLedger& ledger_;
  VirtAddr at_;
  std::array<std::byte, tracee::kRemoteCallGadget.size()> original_{};
  PatchLedger::Index index_ = PatchLedger::kNone;
  bool usable_ = false;
};

std::optional<int64_t> remote_mmap(pid_t stopped, const tracee::ProcessMemory& memory, VirtAddr gadget,
                                   Range frame_area, Range where) {
  tracee::RemoteCall remote(stopped, memory, gadget, frame_area);
  return remote.call(SYS_mmap, {where.begin.value, where.size(), PROT_READ | PROT_EXEC,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, ~uint64_t{0}, 0});
}

}  // namespace

std::string AddressSpace::make_room(Range near, size_t sites, pid_t stopped,
                                    const std::vector<tracee::MapsEntry>& maps, Range slack) {
  // One more site's worth: return sites come with the first call.
  const uint64_t size = (sites + 64) * arch::kMaxOutOfLine + kFrameArea;
  if (has_room(near.begin, sites) && has_room(near.end, sites)) return {};
  return map_chunk(near, round_up(std::max(size, kSmallestChunk), arch::kPageSize), stopped, maps, slack);
}

std::string AddressSpace::map_chunk(Range near, uint64_t size, pid_t stopped,
                                    const std::vector<tracee::MapsEntry>& maps, Range slack) {
  auto gap = arch::find_gap(taken_ranges(maps), near, size);
  if (!gap) return fmt::format("no free {} KiB within 2 GiB of it", size >> 10);
  std::optional<int64_t> answer;
  if (gadget_) {
    answer = remote_mmap(stopped, memory_, gadget_, frame_area_, *gap);
  } else {
    if (slack.size() < tracee::kRemoteCallGadget.size())
      return "no slack behind any text segment to start from";
    BorrowedGadget borrowed(memory_, ledger_, pid(), slack.begin);
    if (!borrowed.usable()) return "its code cannot be written (/proc/PID/mem)";
    answer = remote_mmap(stopped, memory_, slack.begin, {}, *gap);
  }
  if (!answer) return "the thread could not make the system call";
  if (*answer < 0) return fmt::format("mmap in the process failed: {}", strerror(static_cast<int>(-*answer)));
  uint64_t used = 0;
  if (!gadget_) {
    if (memory_.write(gap->begin, std::as_bytes(std::span(tracee::kRemoteCallGadget))) != 0)
      return "the new page cannot be written (/proc/PID/mem)";
    gadget_ = gap->begin;
    used = kFrameArea;
    frame_area_ = {gap->begin + CodeArena::kAlignment, gap->begin + kFrameArea};
  }
  arena_.add(*gap, used);
  RTRACE_LOG(mech, 1, "copies of {} at {}-{}", pid(), gap->begin, gap->end);
  return {};
}

std::string AddressSpace::unmap_copies(pid_t stopped, Range slack) {
  if (arena_.ranges().empty()) return {};
  if (slack.size() < tracee::kRemoteCallGadget.size()) return "no slack behind any text segment to work from";
  BorrowedGadget borrowed(memory_, ledger_, pid(), slack.begin);
  if (!borrowed.usable()) return "its code cannot be written (/proc/PID/mem)";
  tracee::RemoteCall remote(stopped, memory_, slack.begin);
  for (Range range : arena_.ranges()) {
    auto answer = remote.call(SYS_munmap, {range.begin.value, range.size()});
    if (!answer || *answer != 0) return "the thread could not make the system call";
  }
  arena_ = {};
  gadget_ = {};
  frame_area_ = {};
  return {};
}

}  // namespace rtrace::mech
