#include "rtrace/mech/remains.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "rtrace/arch/placement.h"
#include "rtrace/base/error.h"
#include "rtrace/base/unique_fd.h"
#include "rtrace/tracee/remote_call.h"

namespace rtrace::mech {
namespace {

constexpr uint64_t kMostPages = 16384;  // of one anonymous mapping that are looked at
constexpr uint64_t kMostSlots = uint64_t{1} << 22;
constexpr size_t kMostTables = 4;
constexpr size_t kPiece = size_t{1} << 20;
constexpr std::byte kTrap{0xcc};

bool is_header(const agent::MappingHeader& header) {
  return std::memcmp(header.magic, agent::kMappingMagic, sizeof header.magic) == 0 &&
         header.version == agent::kAbiVersion && header.size != 0 && header.size % arch::kPageSize == 0;
}

// The head of a blob, if its code is the one that we carry and what it says of itself can be: the memory is
// the tracee's, which may have written anything there. Another version's blob is not known.
std::optional<agent::Blob> our_blob(const Memory& memory, VirtAddr at, uint64_t size) {
  const std::span ours(reinterpret_cast<const std::byte*>(rtrace_blob_begin),
                       static_cast<size_t>(rtrace_blob_end - rtrace_blob_begin));
  std::vector<std::byte> theirs(ours.size());
  if (memory.read(at, theirs) != theirs.size() ||
      std::memcmp(theirs.data() + sizeof(agent::Blob), ours.data() + sizeof(agent::Blob),
                  ours.size() - sizeof(agent::Blob)) != 0)
    return std::nullopt;
  agent::Blob head{}, own{};
  std::memcpy(&head, theirs.data(), sizeof head);
  std::memcpy(&own, ours.data(), sizeof own);
  const bool offsets =
      head.bridge == own.bridge && head.restorer == own.restorer && head.gadget == own.gadget;
  const bool frame =
      head.frame_begin >= at.value && head.frame_begin <= head.frame_end && head.frame_end <= at.value + size;
  return offsets && frame ? std::optional(head) : std::nullopt;
}

// The kernel joins mappings that touch: headers may stand at any page.
void look_into(const Memory& memory, Range range, Remains& remains) {
  uint64_t looked = 0;
  for (VirtAddr at = range.begin; at < range.end && looked < kMostPages; ++looked) {
    const auto header = memory.read_value<agent::MappingHeader>(at);
    if (!header || !is_header(*header) || header->size > range.end - at) {
      at = at + arch::kPageSize;
      continue;
    }
    remains.pages.push_back({{at, at + header->size}, header->session, header->kind});
    if (header->kind == agent::kBlobMapping)
      if (const auto head = our_blob(memory, at, header->size)) remains.blobs.push_back({at, *head});
    at = at + header->size;
  }
}

bool is_own_code(const std::vector<tracee::MapsEntry>& maps, VirtAddr address) {
  const auto* mapping = tracee::find_mapping(maps, address);
  return mapping != nullptr && mapping->executable && mapping->file_backed() && !mapping->shared;
}

bool is_own_data(const std::vector<tracee::MapsEntry>& maps, VirtAddr address) {
  const auto* mapping = tracee::find_mapping(maps, address);
  return mapping != nullptr && mapping->writable && mapping->file_backed() && !mapping->shared;
}

void read_table(const Memory& memory, const std::vector<tracee::MapsEntry>& maps, VirtAddr table,
                Remains& remains) {
  struct Head {
    agent::MappingHeader mapping;
    uint64_t slots;
  };
  const auto head = memory.read_value<Head>(table);
  if (!head || !is_header(head->mapping) || head->slots > kMostSlots ||
      agent::kTableEntries + head->slots * sizeof(agent::SiteEntry) > head->mapping.size)
    return;
  std::vector<agent::SiteEntry> entries(head->slots);
  const size_t got = memory.read(table + agent::kTableEntries, std::as_writable_bytes(std::span(entries)));
  entries.resize(got / sizeof(agent::SiteEntry));
  for (size_t i = 0; i < entries.size(); ++i) {
    const agent::SiteEntry& entry = entries[i];
    const VirtAddr address{entry.site};
    if (entry.copy() != 0 && is_own_code(maps, address))
      remains.bytes.push_back({address, {std::byte{entry.displaced()}}, {kTrap}});
    if (entry.is_raised_semaphore() && is_own_data(maps, address))
      remains.semaphores.push_back({address, table + agent::kTableEntries + i * sizeof entry +
                                                 offsetof(agent::SiteEntry, copy_and_byte)});
  }
}

// The file that was mapped, whatever its name leads to now; -1 where it cannot be had.
UniqueFd open_mapped(pid_t pid, const tracee::MapsEntry& entry) {
  const std::string by_range =
      fmt::format("/proc/{}/map_files/{:x}-{:x}", pid, entry.range.begin.value, entry.range.end.value);
  UniqueFd fd(open(by_range.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd) return fd;
  fd.reset(open(fmt::format("/proc/{}/root{}", pid, entry.path).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (fd && (fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_ino != entry.inode))
    fd.reset();
  return fd;
}

class Comparison {
 public:
  explicit Comparison(std::vector<ForeignBytes>& found) : found_(found) {}

  void compare(VirtAddr at, std::span<const std::byte> memory, std::span<const std::byte> file) {
    const auto gadget = std::as_bytes(std::span(tracee::kRemoteCallGadget));
    for (size_t i = 0; i < memory.size(); ++i) {
      if (memory[i] == file[i]) continue;
      size_t length = 0;
      if (memory.size() - i >= gadget.size() &&
          std::equal(gadget.begin(), gadget.end(), memory.begin() + static_cast<ptrdiff_t>(i)))
        length = gadget.size();
      else if (memory[i] == kTrap)
        length = 1;
      if (length == 0) continue;
      const auto from_file = file.subspan(i, length), from_memory = memory.subspan(i, length);
      found_.push_back(
          {at + i, {from_file.begin(), from_file.end()}, {from_memory.begin(), from_memory.end()}});
      i += length - 1;
    }
  }

 private:
  std::vector<ForeignBytes>& found_;
};

void compare_mapping(pid_t pid, const Memory& memory, const tracee::MapsEntry& entry,
                     Comparison& comparison) {
  const UniqueFd fd = open_mapped(pid, entry);
  if (!fd) return;
  std::vector<std::byte> ours(kPiece), files(kPiece);
  for (uint64_t offset = 0; offset < entry.range.size(); offset += kPiece) {
    const size_t size = std::min<uint64_t>(kPiece, entry.range.size() - offset);
    const VirtAddr at = entry.range.begin + offset;
    const size_t got = memory.read(at, {ours.data(), size});
    const ssize_t read = pread(fd.get(), files.data(), size, static_cast<off_t>(entry.offset.value + offset));
    if (read <= 0) return;
    const size_t both = std::min(got, static_cast<size_t>(read));
    if (std::memcmp(ours.data(), files.data(), both) != 0)
      comparison.compare(at, {ours.data(), both}, {files.data(), both});
  }
}

}  // namespace

Remains find_pages(const Memory& memory, const std::vector<tracee::MapsEntry>& maps) {
  Remains remains;
  for (const auto& entry : maps)
    if (!entry.file_backed() && entry.path.empty() && entry.readable && !entry.writable && !entry.shared)
      look_into(memory, entry.range, remains);
  return remains;
}

Remains find_remains(const Memory& memory, const std::vector<tracee::MapsEntry>& maps) {
  Remains remains = find_pages(memory, maps);
  std::set<uint64_t> tables;
  for (const auto& blob : remains.blobs)
    if (blob.head.table != 0 && tables.size() < kMostTables && tables.insert(blob.head.table).second)
      read_table(memory, maps, VirtAddr{blob.head.table}, remains);
  return remains;
}

std::vector<ForeignBytes> compare_with_files(pid_t pid, const Memory& memory,
                                             const std::vector<tracee::MapsEntry>& maps) {
  std::vector<ForeignBytes> found;
  Comparison comparison(found);
  for (const auto& entry : maps)
    if (entry.file_backed() && entry.executable && entry.readable && !entry.writable && !entry.shared)
      compare_mapping(pid, memory, entry, comparison);
  return found;
}

Range find_slack(const Memory& memory, const std::vector<tracee::MapsEntry>& maps) {
  std::map<std::pair<uint64_t, std::string>, VirtAddr> bases;
  for (const auto& entry : maps) {
    if (!entry.file_backed() || entry.shared) continue;
    const auto file = std::make_pair(entry.inode, entry.path);
    if (entry.offset.value == 0) bases[file] = entry.range.begin;
    if (!entry.executable || entry.writable || !bases.contains(file)) continue;
    const VirtAddr base = bases[file];
    const auto elf = memory.read_value<Elf64_Ehdr>(base);
    if (!elf || std::memcmp(elf->e_ident, ELFMAG, SELFMAG) != 0 || elf->e_phentsize != sizeof(Elf64_Phdr))
      continue;
    for (unsigned i = 0; i < elf->e_phnum; ++i) {
      const auto header = memory.read_value<Elf64_Phdr>(base + elf->e_phoff + i * sizeof(Elf64_Phdr));
      if (!header || header->p_type != PT_LOAD || (header->p_flags & PF_X) == 0) continue;
      const uint64_t first = header->p_offset / arch::kPageSize * arch::kPageSize;
      if (first != entry.offset.value) continue;
      const VirtAddr end = entry.range.begin + (header->p_offset - first) + header->p_memsz;
      const VirtAddr begin{(end.value + 15) / 16 * 16};
      if (begin + 16 <= entry.range.end && entry.range.end - begin < arch::kPageSize)
        return {begin, entry.range.end};
    }
  }
  return {};
}

}  // namespace rtrace::mech
