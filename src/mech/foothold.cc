#include "rtrace/mech/foothold.h"

#include <sys/mman.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "announced.h"
#include "borrowed_gadget.h"
#include "rtrace/agent/recorder.h"
#include "rtrace/arch/placement.h"
#include "rtrace/arch/relocate.h"
#include "rtrace/base/error.h"
#include "rtrace/base/log.h"
#include "rtrace/base/moment.h"
#include "rtrace/base/text.h"

namespace rtrace::mech {
namespace {

constexpr uint64_t kSmallestChunk = uint64_t{64} << 10;
// The first chunk begins with the blob, then room for an rt_sigreturn frame with all vector state of today's
// processors (AMX tiles included).
constexpr uint64_t kFrameArea = uint64_t{16} << 10;
constexpr uint64_t kBehindHeader = 64;
constexpr uint64_t kFewestSlots = 128;  // their table is one page

}  // namespace

agent::MappingHeader Foothold::header(agent::MappingKind kind, uint64_t size) const {
  agent::MappingHeader header{{}, agent::kAbiVersion, kind, size, session_};
  std::memcpy(header.magic, agent::kMappingMagic, sizeof header.magic);
  return header;
}

bool Foothold::has_room(VirtAddr near, size_t sites) const {
  return arena_.room_near(near) >= sites * arch::kMaxOutOfLine && table_has_room(sites);
}

// Three quarters full at most: chains stay short.
bool Foothold::table_has_room(size_t sites) const {
  return (entries_used_ + sites) * 4 <= entries_.size() * 3;
}

std::string Foothold::make_room(const Means& means, Range near, size_t sites,
                                const std::vector<tracee::MapsEntry>& maps) {
  // More than was asked for: return sites come with the first calls.
  const uint64_t bytes = (sites + 64) * arch::kMaxOutOfLine;
  const uint64_t wanted = sites * arch::kMaxOutOfLine;
  if (arena_.room_near(near.begin) < wanted || arena_.room_near(near.end) < wanted)
    if (std::string failure = make_chunk(means, near, bytes, sites, maps); !failure.empty()) return failure;
  return table_has_room(sites) ? std::string() : map_table(means, sites + 64);
}

bool Foothold::has_code_room(Range near, uint64_t bytes) const {
  return exists() && arena_.room_near(near.begin) >= bytes && arena_.room_near(near.end) >= bytes;
}

std::string Foothold::make_code_room(const Means& means, Range near, uint64_t bytes,
                                     const std::vector<tracee::MapsEntry>& maps) {
  return has_code_room(near, bytes) ? std::string() : make_chunk(means, near, bytes, 0, maps);
}

// The first brings a table with room for so many sites and some more.
std::string Foothold::make_chunk(const Means& means, Range near, uint64_t bytes, size_t sites,
                                 const std::vector<tracee::MapsEntry>& maps) {
  const uint64_t head = exists() ? kBehindHeader : agent::kBlobRoom + kFrameArea;
  const uint64_t size = align_up(std::max(bytes + head, kSmallestChunk), arch::kPageSize);
  const uint64_t slots = exists() ? 0 : slots_for(sites + 64);
  const auto gap = find_place(maps, near, size + (slots > 0 ? table_size(slots) : 0));
  if (!gap) return fmt::format("no free {} KiB within 2 GiB of it", size >> 10);
  return exists() ? map_chunk(means, *gap) : begin_blob(means, *gap, gap->begin + size, slots);
}

std::optional<VirtAddr> Foothold::begins_anew_at(VirtAddr pc) const {
  const agent::Blob& own = offsets();
  if (!exists()) return std::nullopt;
  const uint64_t offset = pc.value - blob_.value;
  const auto* append =
      std::ranges::find_if(own.appends, [&](const auto& part) { return part.holds(offset); });
  if (append != std::end(own.appends)) return blob_ + append->again;
  const auto* look = std::ranges::find_if(own.looks, [&](const auto& part) { return part.holds(offset); });
  return look != std::end(own.looks) ? std::optional(blob_ + look->begin) : std::nullopt;
}

std::optional<VirtAddr> Foothold::after_fault_at(VirtAddr pc) const {
  if (!exists()) return std::nullopt;
  const agent::Blob& own = offsets();
  const auto* look = std::ranges::find_if(
      own.looks, [offset = pc.value - blob_.value](const auto& part) { return part.holds(offset); });
  return look != std::end(own.looks) ? std::optional(blob_ + look->fault) : std::nullopt;
}

bool Foothold::reads_clock_at(VirtAddr pc) const {
  constexpr std::array<unsigned char, kClockLength> kReadClock = {0x0f, 0x31};  // rdtsc
  const auto blob = std::span(rtrace_blob_begin, rtrace_blob_end);
  const uint64_t offset = pc.value - blob_.value;
  return exists() && offset < blob.size() - kClockLength &&
         std::ranges::equal(blob.subspan(offset, kClockLength), kReadClock);
}

std::span<const std::byte> Foothold::ask_code() {
  return std::as_bytes(std::span(rtrace_blob_begin + offsets().ask, arch::kMaxInsn));
}

bool Foothold::adopt_recorder(const tracee::ProcessMemory& memory, Range control_mapping,
                              Range shared_mapping) {
  control_ = control_mapping;
  shared_ = shared_mapping;
  const uint64_t control = control_mapping.begin.value + agent::kControlOffset;
  return memory.write_value(blob_ + offsetof(agent::Blob, control), control) == 0;
}

std::string Foothold::map_chunk(const Means& means, Range chunk) {
  tracee::RemoteCall remote(means.stopped, means.memory, gadget(), frame_area_);
  const auto mark = [&](VirtAddr at) {
    return means.memory.write_value(at, header(agent::kCopiesMapping, chunk.size())) == 0;
  };
  const Mapped mapped = map_announced(remote, means.memory, blob_, chunk, PROT_READ | PROT_EXEC, mark);
  if (!mapped.failure.empty()) return mapped.failure;
  arena_.add(chunk, kBehindHeader);
  return {};
}

// Blob, copies and the first table in one mapping: a remote call is what costs the process most.
std::string Foothold::begin_blob(const Means& means, Range all, VirtAddr table, uint64_t slots) {
  BorrowedGadget borrowed(means.memory, &means.ledger, means.slack, all);
  if (!borrowed.failure().empty()) return borrowed.failure();
  slack_ = borrowed.address();
  in_slack_ = borrowed.original();
  tracee::RemoteCall remote(means.stopped, means.memory, borrowed.address());
  const Mapped mapped = map_at(remote, all, PROT_READ | PROT_EXEC);
  if (!mapped.failure.empty()) return mapped.failure;
  const moment::Scope unmarked(Moment::mapped);
  const Range chunk{all.begin, table};
  const Range frame{chunk.begin + agent::kBlobRoom, chunk.begin + agent::kBlobRoom + kFrameArea};
  const auto blob = std::as_bytes(std::span(rtrace_blob_begin, rtrace_blob_end));
  agent::Blob head = offsets();
  head.mapping = header(agent::kBlobMapping, chunk.size());
  head.table = table.value;
  head.frame_begin = frame.begin.value;
  head.frame_end = frame.end.value;
  // What the head names first, and the rest before the page that makes it known: until then the mapping is
  // blank.
  std::array<std::byte, arch::kPageSize> first_page{};
  std::memcpy(first_page.data(), blob.data(), first_page.size());
  std::memcpy(first_page.data(), &head, sizeof head);
  if (!write_table(means.memory, {table, all.end}, slots) ||
      means.memory.write(chunk.begin + first_page.size(), blob.subspan(first_page.size())) != 0 ||
      means.memory.write(chunk.begin, first_page) != 0)
    return kUnwritable;
  blob_ = chunk.begin;
  mapped_ = true;
  frame_area_ = frame;
  arena_.add(chunk, agent::kBlobRoom + kFrameArea);
  RTRACE_LOG(mech, 1, "blob and copies of {} at {}-{}", means.memory.pid(), chunk.begin, chunk.end);
  if (means.when_begun) means.when_begun(remote);
  return {};
}

// So many that a site more finds it three quarters full at most.
uint64_t Foothold::slots_for(size_t sites) const {
  uint64_t slots = kFewestSlots;
  while ((entries_used_ + sites) * 4 > slots * 3) slots *= 2;
  return slots;
}

uint64_t Foothold::table_size(uint64_t slots) {
  return align_up(agent::kTableEntries + slots * sizeof(agent::SiteEntry), arch::kPageSize);
}

// A new table with everything that is in the old one, in fresh memory.
bool Foothold::write_table(const tracee::ProcessMemory& memory, Range where, uint64_t slots) {
  const std::vector<agent::SiteEntry> old = std::exchange(entries_, std::vector<agent::SiteEntry>(slots));
  entries_used_ = 0;
  for (const agent::SiteEntry& entry : old)
    if (entry.copy() != 0 || entry.is_raised_semaphore()) put(entry);
  agent::SiteTable head{};
  head.mapping = header(agent::kTableMapping, where.size());
  head.slots = slots;
  // The page that makes it known last, and as a whole.
  std::array<std::byte, arch::kPageSize> first_page{};
  const auto entries = std::as_bytes(std::span(entries_));
  const size_t in_first = std::min(entries.size(), first_page.size() - agent::kTableEntries);
  std::memcpy(first_page.data(), &head, agent::kTableEntries);
  std::memcpy(first_page.data() + agent::kTableEntries, entries.data(), in_first);
  const auto rest = entries.subspan(in_first);
  const bool written =
      (entries_used_ == 0 || rest.empty() || memory.write(where.begin + first_page.size(), rest) == 0) &&
      memory.write(where.begin, first_page) == 0;
  if (written) table_ = where;
  return written;
}

// The handler goes from one table to the other by one aligned word.
std::string Foothold::map_table(const Means& means, size_t sites) {
  const uint64_t slots = slots_for(sites);
  const Range old = table_;
  tracee::RemoteCall remote(means.stopped, means.memory, gadget(), frame_area_);
  const uint64_t size = table_size(slots);
  const auto mark = [&](VirtAddr at) { return write_table(means.memory, {at, at + size}, slots); };
  const Mapped mapped = map_announced(remote, means.memory, blob_, {{}, VirtAddr{size}}, PROT_READ, mark);
  if (!mapped.failure.empty()) return mapped.failure;
  if (means.memory.write_value(blob_ + offsetof(agent::Blob, table), mapped.address.value) != 0)
    return "the new table cannot be written (/proc/PID/mem)";
  (void)remote.call(SYS_munmap, {old.begin.value, old.size()});
  return {};
}

// Of the site's entry, or of the free one where it belongs.
uint64_t Foothold::slot_of(uint64_t site) const {
  uint64_t slot = agent::site_slot(site, entries_.size());
  while (entries_[slot].site != 0 && entries_[slot].site != site) slot = (slot + 1) & (entries_.size() - 1);
  return slot;
}

bool Foothold::put(agent::SiteEntry entry) {
  agent::SiteEntry& place = entries_[slot_of(entry.site)];
  entries_used_ += place.site == 0;
  place = entry;
  return true;
}

bool Foothold::add_site(const tracee::ProcessMemory& memory, VirtAddr site, VirtAddr copy,
                        std::byte displaced, agent::SignalCall call) {
  const agent::SiteEntry entry = entry_of(site, copy, displaced, call);
  return add_sites(memory, {&entry, 1});
}

// Where they lie near each other what is between is written, too, as it is there.
bool Foothold::add_sites(const tracee::ProcessMemory& memory, std::span<const agent::SiteEntry> entries) {
  constexpr uint64_t kAtOnce = arch::kPageSize / sizeof(agent::SiteEntry);
  if (!exists() || !table_has_room(entries.size())) return false;
  std::vector<uint64_t> slots;
  for (const agent::SiteEntry& entry : entries) {
    put(entry);
    slots.push_back(slot_of(entry.site));
  }
  std::ranges::sort(slots);
  bool written = true;
  for (size_t first = 0, next = 0; first < slots.size(); first = next) {
    while (next < slots.size() && slots[next] - slots[first] < kAtOnce) ++next;
    const std::span part(&entries_[slots[first]], slots[next - 1] - slots[first] + 1);
    const VirtAddr at = table_.begin + agent::kTableEntries + slots[first] * sizeof(agent::SiteEntry);
    written &= memory.write(at, std::as_bytes(part)) == 0;
  }
  return written;
}

bool Foothold::add_semaphore(const tracee::ProcessMemory& memory, VirtAddr semaphore) {
  const agent::SiteEntry entry{semaphore.value, uint64_t{agent::SiteEntry::kRaised} << 56};
  return add_sites(memory, {&entry, 1});
}

void Foothold::remove_semaphore(const tracee::ProcessMemory& memory, VirtAddr semaphore) {
  remove_site(memory, semaphore);
}

void Foothold::remove_semaphore_of(const tracee::ProcessMemory& child, VirtAddr semaphore) const {
  if (entries_.empty()) return;
  const uint64_t slot = slot_of(semaphore.value);
  if (entries_[slot].site == semaphore.value)
    (void)child.write_value(table_.begin + agent::kTableEntries + slot * sizeof(agent::SiteEntry),
                            agent::SiteEntry{semaphore.value, 0});
}

void Foothold::remove_site(const tracee::ProcessMemory& memory, VirtAddr site) {
  if (entries_.empty()) return;
  const uint64_t slot = slot_of(site.value);
  if (entries_[slot].site != site.value) return;
  entries_[slot].copy_and_byte = 0;
  (void)memory.write_value(table_.begin + agent::kTableEntries + slot * sizeof(agent::SiteEntry),
                           entries_[slot]);
}

void Foothold::forget_sites(const tracee::ProcessMemory& memory) const {
  if (!exists() || entries_.empty()) return;
  (void)memory.write(table_.begin + agent::kTableEntries,
                     std::vector<std::byte>(entries_.size() * sizeof(agent::SiteEntry)));
}

void Foothold::note_mask(const tracee::ProcessMemory& memory, pid_t thread, uint64_t own_mask) const {
  if (!exists()) return;
  const auto tid = static_cast<int64_t>(thread);
  if (thread != 0) (void)memory.write_value(blob_ + offsetof(agent::Blob, own_mask), own_mask);
  (void)memory.write_value(blob_ + offsetof(agent::Blob, masked_thread), tid);
}

uint64_t Foothold::open_handlers(const tracee::ProcessMemory& memory) const {
  if (!existed()) return 0;
  return memory.read_value<uint64_t>(blob_ + offsetof(agent::Blob, open_handlers)).value_or(0);
}

void Foothold::note_open_handlers(const tracee::ProcessMemory& memory, uint64_t signals) const {
  if (exists()) (void)memory.write_value(blob_ + offsetof(agent::Blob, open_handlers), signals);
}

bool Foothold::is_ours(const tracee::ProcessMemory& memory, VirtAddr mapping) const {
  const auto there = memory.read_value<agent::MappingHeader>(mapping);
  return there && std::memcmp(there->magic, agent::kMappingMagic, sizeof there->magic) == 0 &&
         there->session == session_;
}

// As a child has it that was forked between the call that mapped it and what was written there first.
bool Foothold::is_blank(const tracee::ProcessMemory& memory, Range mapping) {
  std::vector<std::byte> page(arch::kPageSize);
  const auto zero = [](std::byte byte) { return byte == std::byte{}; };
  if (memory.read(mapping.begin, page) != page.size() || !std::ranges::all_of(page, zero)) return false;
  const auto maps = tracee::read_maps(memory.pid());
  const auto* entry = tracee::find_mapping(maps, mapping.begin);
  return entry != nullptr && entry->range == mapping && !entry->file_backed() && !entry->writable &&
         !entry->shared;
}

void Foothold::will_borrow(const tracee::ProcessMemory& memory, Range slack) {
  std::vector<std::byte> now(LentGadget{}.size());
  if (slack.size() < now.size() || memory.read_forced(slack.begin, now) != now.size()) return;
  slack_ = slack.begin;
  in_slack_ = std::move(now);
}

void Foothold::give_slack_back(const tracee::ProcessMemory& child) const {
  const auto gadget = std::as_bytes(std::span(tracee::kRemoteCallGadget));
  std::vector<std::byte> there(in_slack_.size());
  if (there.empty() || child.read_forced(slack_, there) != there.size()) return;
  if (std::ranges::equal(std::span(there).first(gadget.size()), gadget)) (void)child.write(slack_, in_slack_);
}

std::string Foothold::leave(const Means& means) const {
  if (!existed()) return {};
  BorrowedGadget borrowed(means.memory, &means.ledger, means.slack);
  if (!borrowed.failure().empty()) return borrowed.failure();
  tracee::RemoteCall remote(means.stopped, means.memory, borrowed.address());
  std::vector<Range> ranges = arena_.ranges();
  // The first table lies behind the blob and goes with it.
  if (const auto before = std::ranges::find(ranges, table_.begin, &Range::end); before != ranges.end())
    before->end = table_.end;
  else
    ranges.push_back(table_);
  for (Range other : {control_, shared_})
    if (other.begin) ranges.push_back(other);
  // The blob last: what else is there is found by it.
  std::ranges::reverse(ranges);
  for (Range range : ranges) {
    if (!is_ours(means.memory, range.begin) && !is_blank(means.memory, range)) continue;
    const auto answer = remote.call(SYS_munmap, {range.begin.value, range.size()});
    if (!answer || *answer != 0) return "the thread could not make the system call";
  }
  return {};
}

}  // namespace rtrace::mech
