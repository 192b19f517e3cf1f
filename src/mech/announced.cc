#include "announced.h"

#include <dirent.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstring>

#include "borrowed_gadget.h"
#include "rtrace/arch/placement.h"
#include "rtrace/base/moment.h"
#include "rtrace/base/text.h"
#include "rtrace/mech/code_arena.h"

namespace rtrace::mech {
namespace {

constexpr unsigned kPageBits = 12, kBeginBits = 36, kSizeBits = 20;
constexpr size_t kNote = tracee::kRemoteCallGadget.size();  // offset
constexpr int kMostTries = 3;
constexpr std::string_view kMemoryFile = "/memfd:rtrace mapping\x01";  // as the kernel shows it
constexpr std::string_view kUnlinked = " (deleted)";

bool is_blank(const Memory& memory, VirtAddr page) {
  std::vector<std::byte> bytes(arch::kPageSize);
  const auto zero = [](std::byte byte) { return byte == std::byte{}; };
  return memory.read(page, bytes) == bytes.size() && std::ranges::all_of(bytes, zero);
}

// The kernel joins mappings that touch: what it shows may be more, if the rest is known to be ours.
bool is_extent(Range shown, Range range, const Remains& remains) {
  if (range.begin < shown.begin || shown.end < range.end) return false;
  for (VirtAddr at = shown.begin; at < shown.end; at = at + arch::kPageSize) {
    const bool known =
        range.contains(at) || std::ranges::any_of(remains.pages, [at](const Remains::Page& page) {
          return page.range.contains(at);
        });
    if (!known) return false;
  }
  return true;
}

// From here on it is known by itself.
void mark(const tracee::ProcessMemory& memory, Range range, uint64_t session) {
  agent::MappingHeader header{{}, agent::kAbiVersion, agent::kCopiesMapping, range.size(), session};
  std::memcpy(header.magic, agent::kMappingMagic, sizeof header.magic);
  (void)memory.write_value(range.begin, header);
}

void add(const tracee::ProcessMemory& memory, const std::vector<tracee::MapsEntry>& maps, Range range,
         uint64_t session, Remains& remains) {
  const auto* entry = range.empty() ? nullptr : tracee::find_mapping(maps, range.begin);
  if (entry == nullptr || entry->file_backed() || !entry->path.empty() || entry->shared || !entry->readable)
    return;
  const auto header = memory.read_value<agent::MappingHeader>(range.begin);
  const bool marked = header && header->session == session && header->version == agent::kAbiVersion &&
                      std::memcmp(header->magic, agent::kMappingMagic, sizeof header->magic) == 0;
  const auto begins = [range](const Remains::Page& page) { return page.range.begin == range.begin; };
  if (std::ranges::any_of(remains.pages, begins)) return;
  if (!marked &&
      (entry->writable || !is_extent(entry->range, range, remains) || !is_blank(memory, range.begin)))
    return;
  // Something of what is in it may have been marked before it was.
  std::erase_if(remains.pages,
                [range](const Remains::Page& page) { return range.contains(page.range.begin); });
  if (!marked) mark(memory, range, session);
  remains.pages.push_back({range, session, agent::kCopiesMapping});
}

}  // namespace

LentGadget announcing_gadget(Range announced) {
  LentGadget bytes{};
  std::memcpy(bytes.data(), tracee::kRemoteCallGadget.data(), kNote);
  const uint64_t pages = announced.size() >> kPageBits;
  if (pages >= uint64_t{1} << kSizeBits) return bytes;
  const uint64_t note = announced.begin.value >> kPageBits | pages << kBeginBits;
  std::memcpy(bytes.data() + kNote, &note, bytes.size() - kNote);
  return bytes;
}

Range announced_behind(std::span<const std::byte> gadget) {
  const auto own = std::as_bytes(std::span(tracee::kRemoteCallGadget));
  if (gadget.size() != LentGadget{}.size() || !std::ranges::equal(gadget.first(kNote), own)) return {};
  uint64_t note = 0;
  std::memcpy(&note, gadget.data() + kNote, gadget.size() - kNote);
  const VirtAddr begin{(note & ((uint64_t{1} << kBeginBits) - 1)) << kPageBits};
  return {begin, begin + ((note >> kBeginBits) << kPageBits)};
}

Mapped map_at(tracee::RemoteCall& remote, Range where, int protection) {
  const uint64_t placed = where.begin ? MAP_FIXED_NOREPLACE : 0;
  const auto answer =
      remote.call(SYS_mmap, {where.begin.value, where.size(), static_cast<uint64_t>(protection),
                             MAP_PRIVATE | MAP_ANONYMOUS | placed, ~uint64_t{0}, 0});
  if (!answer) return {{}, "the thread could not make the system call"};
  if (*answer < 0)
    return {{}, fmt::format("mmap in the process failed: {}", strerror(static_cast<int>(-*answer)))};
  return {VirtAddr{static_cast<uint64_t>(*answer)}, {}};
}

Announcement::Announcement(const tracee::ProcessMemory& memory, VirtAddr blob, Range range)
    : memory_(memory), at_(blob + offsetof(agent::Blob, announced)) {
  (void)memory_.write_value(at_, agent::Blob::Announced{range.begin.value, range.size()});
}

Announcement::~Announcement() {
  (void)memory_.write_value(at_, agent::Blob::Announced{});
}

namespace {

// Beneath all that is mapped there, as the kernel would: over it a stack may grow one day.
std::optional<Range> place_beneath(VirtAddr blob, const std::vector<tracee::MapsEntry>& maps, uint64_t size) {
  constexpr uint64_t kReach = uint64_t{1} << 30;
  const auto lowest = std::ranges::find_if(
      maps, [blob](const auto& entry) { return blob.value < entry.range.begin.value + kReach; });
  if (lowest == maps.end()) return std::nullopt;
  return find_place(maps, {lowest->range.begin, lowest->range.begin + 1}, size);
}

Mapped marked(tracee::RemoteCall& remote, const Mapped& mapped, uint64_t size,
              const std::function<bool(VirtAddr)>& mark) {
  if (!mapped.failure.empty()) return mapped;
  const moment::Scope unmarked(Moment::mapped);
  if (mark(mapped.address)) return mapped;
  (void)remote.call(SYS_munmap, {mapped.address.value, size});
  return {{}, kUnwritable};
}

}  // namespace

// Another process with the same memory may take the place meanwhile. What cannot be announced is mapped all
// the same, where the kernel likes.
Mapped map_announced(tracee::RemoteCall& remote, const tracee::ProcessMemory& memory, VirtAddr blob,
                     Range where, int protection, const std::function<bool(VirtAddr)>& mark) {
  for (int tries = 0; tries < kMostTries; ++tries) {
    const auto place =
        where.begin ? where : place_beneath(blob, tracee::read_maps(memory.pid()), where.size());
    if (!place) break;
    const Announcement announced(memory, blob, *place);
    const Mapped mapped = map_at(remote, *place, protection);
    if (mapped.failure.empty() || where.begin) return marked(remote, mapped, where.size(), mark);
  }
  return marked(remote, map_at(remote, where, protection), where.size(), mark);
}

void add_announced(const tracee::ProcessMemory& memory, const std::vector<tracee::MapsEntry>& maps,
                   Remains& remains) {
  for (const auto& bytes : remains.bytes) add(memory, maps, announced_behind(bytes.written), 0, remains);
  for (const auto& blob : remains.blobs) {
    const auto& [begin, size] = blob.head.announced;
    if (begin % arch::kPageSize == 0 && size % arch::kPageSize == 0 && size <= ~uint64_t{0} - begin)
      add(memory, maps, {VirtAddr{begin}, VirtAddr{begin + size}}, blob.head.mapping.session, remains);
  }
}

namespace {

bool is_of_memory_file(const tracee::MapsEntry& entry) {
  return entry.shared && entry.path == kMemoryFile;
}

}  // namespace

// One that its recorder leads to is known, or a part of it is.
void add_memory_files(const std::vector<tracee::MapsEntry>& maps, Remains& remains) {
  if (remains.pages.empty()) return;
  for (const auto& entry : maps) {
    if (!is_of_memory_file(entry)) continue;
    const auto begins = [&entry](const auto& page) { return page.range.begin == entry.range.begin; };
    const auto known = std::ranges::find_if(remains.pages, begins);
    if (known != remains.pages.end())
      known->range.end = std::max(known->range.end, entry.range.end);
    else
      remains.pages.push_back({entry.range, remains.pages.front().session, agent::kSharedMapping});
  }
}

void close_memory_files(const tracee::ProcessMemory& memory, const std::vector<tracee::MapsEntry>& maps,
                        pid_t fit) {
  std::vector<uint64_t> found;
  const std::string folder = fmt::format("/proc/{}/fd", fit);  // threads may have tables of their own
  DIR* entries = opendir(folder.c_str());
  while (const dirent* entry = entries != nullptr ? readdir(entries) : nullptr) {
    char target[PATH_MAX];
    const auto got = readlinkat(dirfd(entries), entry->d_name, target, sizeof target);
    const auto number = parse_number(entry->d_name);
    const std::string_view name(target, static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (number && name.ends_with(kUnlinked) && name.substr(0, name.size() - kUnlinked.size()) == kMemoryFile)
      found.push_back(*number);
  }
  if (entries != nullptr) closedir(entries);
  if (found.empty()) return;
  const BorrowedGadget borrowed(memory, nullptr, find_slack(memory, maps));
  if (!borrowed.failure().empty()) return;
  tracee::RemoteCall remote(fit, memory, borrowed.address());
  for (const uint64_t fd : found) (void)remote.call(SYS_close, {fd});
}

}  // namespace rtrace::mech
