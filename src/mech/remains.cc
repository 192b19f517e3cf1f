#include "rtrace/mech/remains.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "announced.h"
#include "rtrace/agent/recorder.h"
#include "rtrace/arch/jump.h"
#include "rtrace/arch/placement.h"
#include "rtrace/base/error.h"
#include "rtrace/base/unique_fd.h"
#include "rtrace/mech/wrapper_stub.h"
#include "rtrace/tracee/remote_call.h"

namespace rtrace::mech {
namespace {

using VdsoEnd = std::array<std::byte, 64>;

constexpr uint64_t kMostPages = 16384;              // of one anonymous mapping that are looked at
constexpr uint64_t kMostSlots = uint64_t{1} << 22;  // of all tables
constexpr size_t kPiece = size_t{1} << 20;
constexpr std::byte kTrap{0xcc};

bool is_header(const agent::MappingHeader& header) {
  return std::memcmp(header.magic, agent::kMappingMagic, sizeof header.magic) == 0 &&
         header.version == agent::kAbiVersion && header.size != 0 && header.size % arch::kPageSize == 0;
}

// The head of a blob, if its code is the one that we carry and what it says of itself can be: the memory is
// the tracee's, which may have written anything there. Another version's blob is not known. Where the
// recorder asks, an int3 of ours may stand.
std::optional<agent::Blob> our_blob(const Memory& memory, VirtAddr at, uint64_t size) {
  const std::span ours(reinterpret_cast<const std::byte*>(rtrace_blob_begin),
                       static_cast<size_t>(rtrace_blob_end - rtrace_blob_begin));
  agent::Blob head{}, own{};
  std::memcpy(&own, ours.data(), sizeof own);
  std::vector<std::byte> theirs(ours.size());
  if (memory.read(at, theirs) != theirs.size()) return std::nullopt;
  if (theirs[own.ask] == kTrap) theirs[own.ask] = ours[own.ask];
  if (std::memcmp(theirs.data() + sizeof(agent::Blob), ours.data() + sizeof(agent::Blob),
                  ours.size() - sizeof(agent::Blob)) != 0)
    return std::nullopt;
  std::memcpy(&head, theirs.data(), sizeof head);
  const bool offsets = head.bridge == own.bridge && head.restorer == own.restorer &&
                       head.gadget == own.gadget && head.screen == own.screen;
  const bool frame =
      head.frame_begin >= at.value && head.frame_begin <= head.frame_end && head.frame_end <= at.value + size;
  return offsets && frame ? std::optional(head) : std::nullopt;
}

// A recorder's, and what it leads to. Which notes are true is not asked here: read_notes().
void look_at_control(const Memory& memory, Range control, Remains& remains) {
  const auto head = memory.read_value<agent::ControlHead>(control.begin);
  if (!head || head->shared_size % arch::kPageSize != 0) return;
  const VirtAddr shared{head->shared};
  const auto header = memory.read_value<agent::MappingHeader>(shared);
  Remains::Recorder recorder{control.begin, {}};
  if (header && is_header(*header) && header->kind == agent::kSharedMapping &&
      header->session == head->mapping.session && header->size <= head->shared_size) {  // or its rings went
    recorder.shared = {shared, shared + header->size};
    remains.pages.push_back({recorder.shared, header->session, header->kind});
  }
  remains.recorders.push_back(recorder);
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
    if (header->kind == agent::kControlMapping) look_at_control(memory, {at, at + header->size}, remains);
    if (header->kind == agent::kBlobMapping)
      if (const auto head = our_blob(memory, at, header->size)) remains.blobs.push_back({at, *head});
    at = at + header->size;
  }
}

// Of a file or the kernel, or what has taken its place since: a program may have moved its code to large
// pages, with all that stood in it.
bool is_own_code(const std::vector<tracee::MapsEntry>& maps, VirtAddr address) {
  const auto* mapping = tracee::find_mapping(maps, address);
  return mapping != nullptr && mapping->executable && !mapping->shared &&
         (mapping->file_backed() || mapping->path.empty() || mapping->is_vdso());
}

bool is_own_data(const std::vector<tracee::MapsEntry>& maps, VirtAddr address) {
  const auto* mapping = tracee::find_mapping(maps, address);
  return mapping != nullptr && mapping->writable && mapping->file_backed() && !mapping->shared;
}

// Where a file's GOT lies, which the dynamic linker has made read-only, or not.
bool is_own_slot(const std::vector<tracee::MapsEntry>& maps, VirtAddr address) {
  const auto* mapping = tracee::find_mapping(maps, address);
  return mapping != nullptr && !mapping->executable && mapping->file_backed() && !mapping->shared;
}

bool is_ours(const Remains& remains, VirtAddr address) {
  return std::any_of(remains.pages.begin(), remains.pages.end(),
                     [&](const auto& page) { return page.range.contains(address); });
}

std::span<const std::byte> note_bytes(const uint8_t (&bytes)[agent::EntryNote::kLength]) {
  return std::as_bytes(std::span(bytes));
}

ForeignBytes foreign(VirtAddr at, std::span<const std::byte> original, std::span<const std::byte> written) {
  return {at, {original.begin(), original.end()}, {written.begin(), written.end()}};
}

// `length` bytes that lead to a wrapper.
void take_note(const std::vector<tracee::MapsEntry>& maps, const agent::EntryNote& note, Remains& remains) {
  const VirtAddr at{note.address};
  const auto written = note_bytes(note.written);
  if (note.length == sizeof(VirtAddr::value)) {
    VirtAddr target;
    std::memcpy(&target.value, written.data(), sizeof target.value);
    if (!is_own_slot(maps, at) || !is_ours(remains, target)) return;
    remains.bytes.push_back(foreign(at, note_bytes(note.original), written));
    remains.bytes.back().slot = true;
    return;
  }
  if (!is_own_code(maps, at)) return;
  const auto hop = note.length == arch::kShortJump ? arch::short_jump_target(written, at) : std::nullopt;
  if (hop && !is_own_code(maps, *hop)) return;
  const auto target =
      hop ? arch::near_jump_target(note_bytes(note.hop), *hop) : arch::near_jump_target(written, at);
  if (!target || !is_ours(remains, *target)) return;
  const size_t length = hop ? arch::kShortJump : arch::kNearJump;
  remains.bytes.push_back(foreign(at, note_bytes(note.original).first(length), written.first(length)));
  if (!hop) return;
  remains.bytes.push_back(foreign(*hop, note_bytes(note.padding).first(arch::kNearJump),
                                  note_bytes(note.hop).first(arch::kNearJump)));
  remains.bytes.back().hop = true;
}

void take_foretelling(const std::vector<tracee::MapsEntry>& maps, const agent::ForetellingNote& note,
                      Remains& remains) {
  const VirtAddr at{note.address};
  if (!at || !is_own_code(maps, at)) return;
  const auto padding = std::as_bytes(std::span(note.padding)).first(kForetellingCall.size());
  remains.bytes.push_back(foreign(at, padding, kForetellingCall));
  remains.bytes.back().foretells = true;
}

// Jumps and slots that lead to a wrapper, and the call that wrappers go through.
void read_notes(const Memory& memory, const std::vector<tracee::MapsEntry>& maps, VirtAddr control,
                Remains& remains) {
  const auto head = memory.read_value<agent::ControlHead>(control);
  if (!head || !is_header(head->mapping) || head->notes < control.value ||
      head->notes_count > head->mapping.size / sizeof(agent::EntryNote) ||
      head->notes - control.value > head->mapping.size - head->notes_count * sizeof(agent::EntryNote))
    return;
  std::vector<agent::EntryNote> notes(head->notes_count);
  const size_t got = memory.read(VirtAddr{head->notes}, std::as_writable_bytes(std::span(notes)));
  notes.resize(got / sizeof(agent::EntryNote));
  for (const agent::EntryNote& note : notes)
    if (note.address != 0) take_note(maps, note, remains);
  take_foretelling(maps, head->foretelling, remains);
}

// `slots`: how many may still be read.
void read_table(const Memory& memory, const std::vector<tracee::MapsEntry>& maps, VirtAddr table,
                uint64_t& slots, Remains& remains) {
  struct Head {
    agent::MappingHeader mapping;
    uint64_t slots;
  };
  const auto head = memory.read_value<Head>(table);
  if (!head || !is_header(head->mapping) || head->slots > slots ||
      agent::kTableEntries + head->slots * sizeof(agent::SiteEntry) > head->mapping.size)
    return;
  slots -= head->slots;
  std::vector<agent::SiteEntry> entries(head->slots);
  const size_t got = memory.read(table + agent::kTableEntries, std::as_writable_bytes(std::span(entries)));
  entries.resize(got / sizeof(agent::SiteEntry));
  remains.tables.push_back({table + agent::kTableEntries,
                            table + agent::kTableEntries + entries.size() * sizeof(agent::SiteEntry)});
  for (size_t i = 0; i < entries.size(); ++i) {
    const agent::SiteEntry& entry = entries[i];
    const VirtAddr address{entry.site};
    if (entry.copy() != 0 && (is_own_code(maps, address) || is_ours(remains, address)))
      remains.bytes.push_back(
          {address, {std::byte{entry.displaced()}}, {kTrap}, entry.call() != agent::SignalCall::none});
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
        length = std::min(LentGadget{}.size(), memory.size() - i);
      else if (memory[i] == kTrap)
        length = 1;
      if (length == 0) continue;
      const auto from_file = file.subspan(i, length), from_memory = memory.subspan(i, length);
      found_.push_back(
          {at + i, {from_file.begin(), from_file.end()}, {from_memory.begin(), from_memory.end()}});
      found_.back().by_file = true;
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

// A mapping of ours may be several of the kernel's: one page of a recorder's control has advice of its own.
Remains find_pages(const Memory& memory, const std::vector<tracee::MapsEntry>& maps) {
  std::vector<Range> ranges;
  for (const auto& entry : maps) {
    if (entry.file_backed() || !entry.path.empty() || !entry.readable || entry.writable || entry.shared)
      continue;
    if (!ranges.empty() && ranges.back().end == entry.range.begin)
      ranges.back().end = entry.range.end;
    else
      ranges.push_back(entry.range);
  }
  Remains remains;
  for (Range range : ranges) look_into(memory, range, remains);
  add_memory_files(maps, remains);
  return remains;
}

Remains find_remains(const Memory& memory, const std::vector<tracee::MapsEntry>& maps) {
  Remains remains = find_pages(memory, maps);
  std::set<uint64_t> tables;
  uint64_t slots = kMostSlots;
  for (const auto& blob : remains.blobs)
    if (blob.head.table != 0 && tables.insert(blob.head.table).second)
      read_table(memory, maps, VirtAddr{blob.head.table}, slots, remains);
  for (const auto& recorder : remains.recorders) read_notes(memory, maps, recorder.control, remains);
  return remains;
}

void drop_int3s_of_files(pid_t pid, const Memory& memory, const std::vector<tracee::MapsEntry>& maps,
                         Remains& remains) {
  std::map<VirtAddr, UniqueFd> files;  // by where they are mapped
  std::erase_if(remains.bytes, [&](const ForeignBytes& bytes) {
    const auto* mapping = tracee::find_mapping(maps, bytes.address);
    if (bytes.written.size() != 1 || mapping == nullptr || !mapping->file_backed()) return false;
    if (memory.read_value<std::byte>(bytes.address) != kTrap) return false;
    auto [file, fresh] = files.try_emplace(mapping->range.begin);
    if (fresh) file->second = open_mapped(pid, *mapping);
    const uint64_t offset = mapping->offset.value + (bytes.address - mapping->range.begin);
    std::byte own{};
    return file->second && pread(file->second.get(), &own, 1, static_cast<off_t>(offset)) == 1 &&
           own != bytes.original[0];
  });
}

void forget_sites(const tracee::ProcessMemory& memory, const Remains& remains) {
  for (Range table : remains.tables) (void)memory.write(table.begin, std::vector<std::byte>(table.size()));
}

std::vector<std::byte> bytes_of_file(pid_t pid, const std::vector<tracee::MapsEntry>& maps, VirtAddr address,
                                     size_t size) {
  const auto* mapping = tracee::find_mapping(maps, address);
  const UniqueFd fd = mapping != nullptr && mapping->file_backed() ? open_mapped(pid, *mapping) : UniqueFd();
  if (!fd) return {};
  std::vector<std::byte> bytes(size);
  const uint64_t offset = mapping->offset.value + (address - mapping->range.begin);
  const ssize_t got = pread(fd.get(), bytes.data(), size, static_cast<off_t>(offset));
  bytes.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return bytes;
}

namespace {

// What of the kernel's own object nothing runs: it ends in zeros. Or in a gadget of ours.
Range vdso_slack(const Memory& memory, const std::vector<tracee::MapsEntry>& maps) {
  const auto entry = std::ranges::find_if(maps, &tracee::MapsEntry::is_vdso);
  if (entry == maps.end() || !entry->executable) return {};
  VdsoEnd bytes{};
  const Range end{entry->range.end - bytes.size(), entry->range.end};
  if (memory.read(end.begin, bytes) != bytes.size()) return {};
  const auto gadget = std::as_bytes(std::span(tracee::kRemoteCallGadget));
  const bool lent = std::ranges::equal(std::span(bytes).first(gadget.size()), gadget);
  const auto rest = std::span(bytes).subspan(lent ? LentGadget{}.size() : 0);
  return std::ranges::all_of(rest, [](std::byte byte) { return byte == std::byte{}; }) ? end : Range{};
}

}  // namespace

std::vector<ForeignBytes> compare_with_files(pid_t pid, const Memory& memory,
                                             const std::vector<tracee::MapsEntry>& maps) {
  std::vector<ForeignBytes> found;
  Comparison comparison(found);
  for (const auto& entry : maps)
    if (entry.file_backed() && entry.executable && entry.readable && !entry.writable && !entry.shared)
      compare_mapping(pid, memory, entry, comparison);
  VdsoEnd bytes{};
  const Range end = vdso_slack(memory, maps);
  if (end.size() == bytes.size() && memory.read(end.begin, bytes) == bytes.size())
    comparison.compare(end.begin, bytes, VdsoEnd{});
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
  return vdso_slack(memory, maps);
}

bool gadget_stands(const Memory& memory, const std::vector<tracee::MapsEntry>& maps) {
  const auto gadget = std::as_bytes(std::span(tracee::kRemoteCallGadget));
  const Range slack = find_slack(memory, maps);
  std::vector<std::byte> there(gadget.size());
  return slack.size() >= there.size() && memory.read(slack.begin, there) == there.size() &&
         std::ranges::equal(there, gadget);
}

}  // namespace rtrace::mech
