#include "rtrace/plan/entry_patch.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "planners.h"
#include "rtrace/arch/branches.h"

namespace rtrace::plan {
namespace {

// Distances are what they will be in memory, so the file's own addresses serve.
VirtAddr as_mapped(ElfAddr address) {
  return {address.value};
}
ElfAddr in_file(VirtAddr address) {
  return {address.value};
}

// Near enough for every operand, wherever the copy will really be.
constexpr uint64_t kSomewhereNear = 0x1000;

class Examination {
 public:
  explicit Examination(const elf::ElfFile& file) : file_(file) {
    for (const elf::Symbol& symbol : file.functions()) starts_.push_back(symbol.address);
    for (const ElfRange& range : file.frame_ranges()) starts_.push_back(range.begin);
    std::sort(starts_.begin(), starts_.end());
  }

  EntryAnswer prologue_of(const elf::Symbol& function) const;
  // Puts a refusal where a branch from elsewhere leads into the covered bytes.
  void check_branches(std::map<ElfAddr, EntryAnswer>& answers) const;

 private:
  uint64_t room_at(ElfAddr address) const;
  uint64_t size_of(const elf::Symbol& function) const;
  std::optional<arch::Refused> forbidden_by(const arch::Reference& candidate, const EntryPatch& entry) const;
  std::span<const std::byte> code_between(ElfAddr begin, VirtAddr place) const {
    return file_.bytes_at(begin, in_file(place) - begin + arch::kMaxInsn);
  }

  const elf::ElfFile& file_;
  std::vector<ElfAddr> starts_;
};

uint64_t Examination::room_at(ElfAddr address) const {
  auto next = std::upper_bound(starts_.begin(), starts_.end(), address);
  uint64_t room = next == starts_.end() ? arch::kEntryWindow : *next - address;
  return std::min<uint64_t>(room, arch::kEntryWindow);
}

uint64_t Examination::size_of(const elf::Symbol& function) const {
  if (function.size != 0) return function.size;
  const auto& ranges = file_.frame_ranges();
  auto range = std::lower_bound(ranges.begin(), ranges.end(), function.address,
                                [](const ElfRange& each, ElfAddr address) { return each.begin < address; });
  if (range != ranges.end() && range->begin == function.address) return range->size();
  return room_at(function.address);
}

EntryAnswer Examination::prologue_of(const elf::Symbol& function) const {
  EntryPatch patch;
  patch.function = function.address;
  patch.room = room_at(function.address);
  patch.size = size_of(function);
  VirtAddr from = as_mapped(function.address);
  auto answer = arch::relocate_prologue({file_.bytes_at(function.address, patch.room), from, patch.size},
                                        from + kSomewhereNear);
  if (auto* refused = std::get_if<arch::Refused>(&answer)) return *refused;
  const auto& prologue = std::get<arch::Prologue>(answer);
  patch.at = in_file(prologue.at);
  patch.covered = prologue.covered;
  patch.calls = prologue.calls;
  return patch;
}

std::string_view why_forbidden(const arch::Reference& candidate, const EntryPatch& entry,
                               arch::Origin origin) {
  if (origin == arch::Origin::elsewhere) return "other code leads to inside the jump";
  return in_file(candidate.target) <= entry.at ? "a loop to its beginning"
                                               : "its code leads to inside the jump";
}

std::optional<arch::Refused> Examination::forbidden_by(const arch::Reference& candidate,
                                                       const EntryPatch& entry) const {
  ElfAddr place = in_file(candidate.place);
  bool own = ElfRange{entry.function, entry.function + entry.size}.contains(place);
  auto origin = own ? arch::Origin::same_function : arch::Origin::elsewhere;
  arch::CoveredEntry covered{as_mapped(entry.function),
                             {as_mapped(entry.at), as_mapped(entry.at + entry.covered)}};
  if (!arch::forbids(candidate, covered, origin)) return std::nullopt;
  auto start = own ? entry.function : function_start(file_, place);
  // Where nothing says what the bytes are, they may be what they read as.
  std::string_view why = start ? why_forbidden(candidate, entry, origin)
                               : "bytes of no known function may lead to inside the jump";
  if (start && !arch::is_reference(candidate, code_between(*start, candidate.place), as_mapped(*start)))
    return std::nullopt;
  return arch::Refused{fmt::format(
      "{}: {} at {}", why, arch::disassemble(file_.bytes_at(place, arch::kMaxInsn), candidate.place), place)};
}

void Examination::check_branches(std::map<ElfAddr, EntryAnswer>& answers) const {
  std::vector<Range> targets;
  for (const auto& [address, answer] : answers)
    if (const auto* patch = std::get_if<EntryPatch>(&answer))
      targets.push_back({as_mapped(address), as_mapped(patch->at + patch->covered)});
  for (const elf::Segment& segment : file_.segments()) {
    if (!segment.executable) continue;
    auto text = file_.bytes_at(segment.memory.begin, segment.memory.size());
    for (const arch::Reference& candidate :
         arch::find_references(text, as_mapped(segment.memory.begin), targets)) {
      auto& answer = std::prev(answers.upper_bound(in_file(candidate.target)))->second;
      const auto* patch = std::get_if<EntryPatch>(&answer);
      if (patch == nullptr) continue;
      if (auto refused = forbidden_by(candidate, *patch)) answer = *refused;
    }
  }
}

}  // namespace

std::vector<EntryAnswer> examine_entries(const elf::ElfFile& file, std::span<const elf::Symbol> functions) {
  Examination examination(file);
  std::map<ElfAddr, EntryAnswer> by_address;
  for (const elf::Symbol& function : functions)
    if (!by_address.contains(function.address))
      by_address.emplace(function.address, examination.prologue_of(function));
  examination.check_branches(by_address);
  std::vector<EntryAnswer> answers;
  for (const elf::Symbol& function : functions) answers.push_back(by_address.at(function.address));
  return answers;
}

}  // namespace rtrace::plan
