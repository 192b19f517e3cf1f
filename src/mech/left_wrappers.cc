#include "left_wrappers.h"

#include <sys/mman.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <set>

#include "borrowed_gadget.h"
#include "foretelling.h"
#include "rtrace/agent/recorder.h"
#include "rtrace/arch/jump.h"
#include "rtrace/arch/placement.h"
#include "rtrace/base/text.h"
#include "rtrace/tracee/thread.h"

namespace rtrace::mech {
namespace {

constexpr uint32_t kMostFunctions = 1U << 20;
constexpr size_t kSummariesAtOnce = 64;

}  // namespace

bool is_int3(const ForeignBytes& bytes) {
  return bytes.written.size() == 1;
}

bool is_jump(const ForeignBytes& bytes) {
  if (bytes.hop || bytes.slot || bytes.foretells) return false;
  if (bytes.written.size() == arch::kShortJump)
    return arch::short_jump_target(bytes.written, bytes.address).has_value();
  return bytes.written.size() == arch::kNearJump &&
         arch::near_jump_target(bytes.written, bytes.address).has_value();
}

void order_jumps(std::vector<ForeignBytes>& all) {
  std::set<VirtAddr> hops;
  for (const ForeignBytes& bytes : all)
    if (const auto hop = arch::short_jump_target(bytes.written, bytes.address);
        hop && bytes.written.size() == arch::kShortJump)
      hops.insert(*hop);
  for (ForeignBytes& bytes : all) {
    bytes.hop |= bytes.written.size() == arch::kNearJump && hops.contains(bytes.address);
    bytes.foretells |= std::ranges::equal(bytes.written, kForetellingCall);
  }
  std::ranges::stable_sort(all, {},
                           [](const ForeignBytes& bytes) { return bytes.foretells ? 2 : bytes.hop; });
}

bool reads(const tracee::ProcessMemory& memory, VirtAddr at, const std::vector<std::byte>& bytes) {
  std::vector<std::byte> now(bytes.size());
  return memory.read_forced(at, now) == now.size() && now == bytes;
}

void add_outside_jumps(std::vector<ForeignBytes>& all, std::vector<ForeignBytes> found,
                       const tracee::ProcessMemory& memory) {
  std::multimap<VirtAddr, const ForeignBytes*> jumps;
  std::set<VirtAddr> sites;
  for (const ForeignBytes& bytes : all) {
    if (is_jump(bytes) || bytes.hop) jumps.emplace(bytes.address, &bytes);
    if (is_int3(bytes)) sites.insert(bytes.address);
  }
  std::erase_if(found, [&](const ForeignBytes& bytes) {
    if (is_int3(bytes) && sites.contains(bytes.address)) return true;
    const VirtAddr first{bytes.address.value - std::min<uint64_t>(bytes.address.value, arch::kNearJump - 1)};
    return std::any_of(jumps.lower_bound(first), jumps.upper_bound(bytes.address), [&](const auto& jump) {
      const ForeignBytes& over = *jump.second;
      return bytes.address - over.address < over.written.size() && reads(memory, over.address, over.written);
    });
  });
  std::ranges::move(found, std::back_inserter(all));
}

bool jumps_stand(const tracee::ProcessMemory& memory, const Remains& remains) {
  return std::ranges::any_of(remains.bytes, [&](const ForeignBytes& bytes) {
    if (bytes.slot) return !reads(memory, bytes.address, bytes.original);
    return is_jump(bytes) && reads(memory, bytes.address, bytes.written);
  });
}

bool is_led_to(VirtAddr hop, const tracee::ProcessMemory& memory, const Remains& remains) {
  return std::ranges::any_of(remains.bytes, [&](const ForeignBytes& bytes) {
    return bytes.written.size() == arch::kShortJump &&
           arch::short_jump_target(bytes.written, bytes.address) == hop &&
           !reads(memory, bytes.address, bytes.original);
  });
}

namespace {

bool borrows_frames(const tracee::ProcessMemory& memory, VirtAddr control) {
  const auto head = memory.read_value<agent::ControlHead>(control);
  if (!head || head->notes_count > kMostFunctions) return false;
  for (uint64_t i = 0; i < head->notes_count; ++i) {
    const VirtAddr at = control + agent::kPlansOffset + i * sizeof(agent::FunctionPlan);
    const auto plan = memory.read_value<agent::FunctionPlan>(at);
    if (plan && (plan->flags & agent::FunctionPlan::kBorrowedFrame) != 0) return true;
  }
  return false;
}

// SharedRecords::open_calls()
uint64_t recorded_open(const tracee::ProcessMemory& memory, const agent::Control& control,
                       const agent::SharedHeader& header) {
  uint64_t open = header.unrecorded;
  for (uint64_t index = 0; index < std::size(header.used) * 64; ++index) {
    if ((header.used[index / 64] >> index % 64 & 1) == 0) continue;
    const VirtAddr slot{control.slots + index * sizeof(agent::Slot)};
    open += memory.read_value<uint64_t>(slot + offsetof(agent::Slot, open)).value_or(0);
  }
  return open;
}

// Of so many summaries at most that lie there; the process stands meanwhile, and few of thousands count
// anything.
std::optional<uint64_t> open_of_some(const tracee::ProcessMemory& memory, VirtAddr summaries,
                                     uint64_t count) {
  std::array<uint64_t, kSummariesAtOnce> entered{};
  std::array<tracee::ProcessMemory::Piece, kSummariesAtOnce> pieces;
  for (uint64_t i = 0; i < count; ++i)
    pieces[i] = {summaries + i * sizeof(agent::Summary) + offsetof(agent::Summary, entered),
                 reinterpret_cast<std::byte*>(&entered[i]), sizeof entered[i]};
  memory.read_gathered(std::span(pieces).first(count));
  uint64_t open = 0;
  for (uint64_t i = 0; i < count; ++i) {
    if (pieces[i].got != sizeof entered[i]) return std::nullopt;
    if (entered[i] == 0) continue;
    const auto summary = memory.read_value<agent::Summary>(summaries + i * sizeof(agent::Summary));
    if (!summary) return std::nullopt;
    open += summary->entered;
    for (uint64_t returned : summary->durations.counts) open -= returned;
  }
  return open;
}

// not_returned()
std::optional<uint64_t> counted_open(const tracee::ProcessMemory& memory, const agent::Control& control,
                                     const agent::SharedHeader& header) {
  const uint64_t claimed =
      std::min<uint64_t>(uint64_t{control.functions} + header.summaries_claimed, control.summaries_count);
  uint64_t open = 0;
  for (uint64_t first = 0; first < claimed; first += kSummariesAtOnce) {
    const VirtAddr at{control.summaries + first * sizeof(agent::Summary)};
    const auto some = open_of_some(memory, at, std::min<uint64_t>(kSummariesAtOnce, claimed - first));
    if (!some) return std::nullopt;
    open += *some;
  }
  return open;
}

}  // namespace

bool has_open_calls(const tracee::ProcessMemory& memory, const Remains& remains) {
  for (const auto& recorder : remains.recorders) {
    const auto control = memory.read_value<agent::Control>(recorder.control + agent::kControlOffset);
    const auto header = memory.read_value<agent::SharedHeader>(recorder.shared.begin);
    // Whose shared memory is gone, or has gone since we looked, was being taken out, and this begins when no
    // call is open.
    if (control && control->functions != 0 && (recorder.shared.empty() || !header)) continue;
    const bool known = control && header && control->functions <= kMostFunctions;
    // In a fork child it is wiped: nothing says which of the parent's calls the child is inside.
    if ((!known || control->functions == 0) && borrows_frames(memory, recorder.control)) return true;
    if (!known) continue;
    if (recorded_open(memory, *control, *header) != 0) return true;
    if (counted_open(memory, *control, *header) != header->left_calls) return true;
  }
  return false;
}

namespace {

// Where wrappers lie: behind the blob, too.
std::vector<Range> code_of(const Remains& remains) {
  std::vector<Range> code;
  for (const auto& page : remains.pages)
    if (page.kind == agent::kBlobMapping || page.kind == agent::kCopiesMapping) code.push_back(page.range);
  return code;
}

}  // namespace

bool leads_to_wrapper(const StoppedThread& thread, const Remains& remains) {
  const std::vector<Range> code = code_of(remains);
  const StandingThread standing{thread.tid, thread.pc, thread.stack};
  return !remains.recorders.empty() && patch_conflicts(code, {&standing, 1});
}

bool leads_to_hop(const StoppedThread& thread, const Remains& remains) {
  std::vector<Range> hops;
  for (const ForeignBytes& bytes : remains.bytes)
    if (bytes.hop) hops.push_back({bytes.address, bytes.address + 1});
  const StandingThread standing{thread.tid, thread.pc, thread.stack};
  return patch_conflicts(hops, {&standing, 1}).has_value();
}

// Frame: kernel arch/x86/include/asm/sigframe.h; the return to rt_sigreturn first, rip at 176, cs behind it
// at 192.
bool handler_returns_to(const StoppedThread& thread, const std::function<bool(VirtAddr)>& ours) {
  constexpr size_t kRip = 176 / 8, kSelectors = 192 / 8;
  constexpr uint64_t kUserCode = 0x33;  // arch/x86/include/asm/segment.h, __USER_CS
  const auto& words = thread.stack;
  if (!thread.stack_known) return true;
  for (size_t at = 0; at + kSelectors < words.size(); ++at)
    if ((words[at + kSelectors] & 0xffff) == kUserCode && ours(VirtAddr{words[at + kRip]}) &&
        !ours(VirtAddr{words[at]}))
      return true;
  return false;
}

// The flags of its context and its selectors as the kernel writes them for 64 bits (uc_flags; cs, gs, fs,
// ss).
bool runs_handler_that_blocks(const StoppedThread& thread, uint64_t signals) {
  constexpr size_t kFlags = 1, kSelectors = 192 / 8, kMask = 304 / 8;
  constexpr uint64_t kOfUserCode = 0x002b'0000'0000'0033, kMostFlags = 7;
  const auto& words = thread.stack;
  for (size_t at = 0; at + kMask < words.size(); ++at)
    if (words[at + kSelectors] == kOfUserCode && words[at + kFlags] <= kMostFlags &&
        (words[at + kMask] & signals) != signals)
      return true;
  return false;
}

bool retire_call(const tracee::ProcessMemory& memory, const std::vector<tracee::MapsEntry>& maps,
                 const std::vector<pid_t>& stopped, const Remains& remains) {
  std::vector<StoppedThread> threads;
  for (pid_t tid : stopped)
    if (auto thread = look_at(tid, memory, maps, Below::nothing)) threads.push_back(std::move(*thread));
  const std::vector<Range> code = code_of(remains);
  return std::ranges::all_of(remains.bytes, [&](const ForeignBytes& bytes) {
    return !bytes.foretells || retire_foretelling(memory, code, bytes.address, threads);
  });
}

bool lends_memory(pid_t pid) {
  for (pid_t tid : tracee::read_tasks(pid))
    for (pid_t child : tracee::read_children(tid))
      if (tracee::share_memory(tid, child)) return true;
  return false;
}

std::vector<Range> rings_of(const tracee::ProcessMemory& memory, const Remains& remains) {
  std::vector<Range> rings;
  for (const auto& recorder : remains.recorders) {
    const auto control = memory.read_value<agent::Control>(recorder.control + agent::kControlOffset);
    if (!control || recorder.shared.empty()) continue;
    const VirtAddr begin{align_up(control->rings, arch::kPageSize)};
    if (recorder.shared.contains(begin)) rings.push_back({begin, recorder.shared.end});
  }
  return rings;
}

// What is shared is its parent's or its children's too, and found by the control mapping alone.
void free_records(const tracee::ProcessMemory& memory, const std::vector<tracee::MapsEntry>& maps, pid_t fit,
                  const Remains& remains) {
  const auto rings = rings_of(memory, remains);
  const BorrowedGadget borrowed(memory, nullptr, find_slack(memory, maps));
  if (rings.empty() || !borrowed.failure().empty()) return;
  tracee::RemoteCall remote(fit, memory, borrowed.address());
  for (const Range ring : rings)
    (void)remote.call(SYS_madvise, {ring.begin.value, ring.size(), uint64_t{MADV_REMOVE}});
}

void forget_pages(const tracee::ProcessMemory& memory, const Remains& remains) {
  const std::array<std::byte, sizeof agent::kMappingMagic> nothing{};
  for (const auto& page : remains.pages)
    if (page.kind != agent::kSharedMapping) (void)memory.write(page.range.begin, nothing);
}

}  // namespace rtrace::mech
