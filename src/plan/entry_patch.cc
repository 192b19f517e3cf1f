#include "rtrace/plan/entry_patch.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "data_labels.h"
#include "padding.h"
#include "planners.h"
#include "rtrace/arch/branches.h"
#include "rtrace/arch/insn.h"

namespace rtrace::plan {
namespace {

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

  EntryAnswer prologue_of(const elf::Symbol& function, size_t jump) const;
  // A short jump instead, where the near one that was refused needs more than its first instructions.
  EntryAnswer short_entry_of(const elf::Symbol& function, Padding& padding) const;
  // Puts a refusal where a branch from elsewhere leads into the covered bytes.
  void check_branches(std::map<ElfAddr, EntryAnswer>& answers) const;
  // And where data do: a table's element.
  void check_data(std::map<ElfAddr, EntryAnswer>& answers) const;
  std::span<const ElfAddr> starts() const { return starts_; }

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

EntryAnswer Examination::prologue_of(const elf::Symbol& function, size_t jump) const {
  EntryPatch patch;
  patch.function = function.address;
  patch.room = room_at(function.address);
  patch.size = size_of(function);
  VirtAddr from = as_mapped(function.address);
  auto answer = arch::relocate_prologue(
      {file_.bytes_at(function.address, patch.room), from, patch.size, jump}, from + kSomewhereNear);
  if (auto* refused = std::get_if<arch::Refused>(&answer)) return *refused;
  const auto& prologue = std::get<arch::Prologue>(answer);
  patch.at = in_file(prologue.at);
  patch.covered = prologue.covered;
  patch.calls = prologue.calls;
  return patch;
}

EntryAnswer Examination::short_entry_of(const elf::Symbol& function, Padding& padding) const {
  EntryAnswer answer = prologue_of(function, arch::kShortJump);
  auto* patch = std::get_if<EntryPatch>(&answer);
  if (patch == nullptr) return answer;
  patch->hop = padding.take_near(patch->at);
  if (!patch->hop) return arch::Refused{"no padding near it has room for its jump"};
  return answer;
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
  const ElfAddr target = in_file(candidate.target);
  const bool to_hop = entry.hop && ElfRange{*entry.hop, *entry.hop + arch::kNearJump}.contains(target);
  if (!to_hop && !arch::forbids(candidate, covered, origin)) return std::nullopt;
  const auto around = own ? ElfRange{entry.function, place} : function_around(file_, place);
  // Where nothing says what the bytes are, they may be what they read as.
  std::string_view why = around ? why_forbidden(candidate, entry, origin)
                                : "bytes of no known function may lead to inside the jump";
  if (around &&
      !arch::is_reference(candidate, code_between(around->begin, candidate.place), as_mapped(around->begin)))
    return std::nullopt;
  return arch::Refused{fmt::format(
      "{}: {} at {}", why, arch::disassemble(file_.bytes_at(place, arch::kMaxInsn), candidate.place), place)};
}

void Examination::check_branches(std::map<ElfAddr, EntryAnswer>& answers) const {
  std::map<VirtAddr, std::pair<Range, ElfAddr>> targets;  // and whose they are
  for (const auto& [address, answer] : answers) {
    const auto* patch = std::get_if<EntryPatch>(&answer);
    if (patch == nullptr) continue;
    const VirtAddr from = as_mapped(address);
    targets[from] = {{from, as_mapped(patch->at + patch->covered)}, address};
    // From its very first byte: who comes there is no call of this function.
    if (patch->hop)
      targets[as_mapped(*patch->hop)] = {{as_mapped(*patch->hop), as_mapped(*patch->hop + arch::kNearJump)},
                                         address};
  }
  std::vector<Range> ranges;
  for (const auto& [from, target] : targets) {
    if (ranges.empty() || from >= ranges.back().end)
      ranges.push_back(target.first);
    else
      answers.at(target.second) = arch::Refused{"the padding for its jump is another entry's"};
  }
  for (const elf::Segment& segment : file_.segments()) {
    if (!segment.executable) continue;
    auto text = file_.bytes_at(segment.memory.begin, segment.memory.size());
    for (const arch::Reference& candidate :
         arch::find_references(text, as_mapped(segment.memory.begin), ranges)) {
      auto& answer = answers.at(std::prev(targets.upper_bound(candidate.target))->second.second);
      const auto* patch = std::get_if<EntryPatch>(&answer);
      if (patch == nullptr) continue;
      if (auto refused = forbidden_by(candidate, *patch)) answer = *refused;
    }
  }
}

void Examination::check_data(std::map<ElfAddr, EntryAnswer>& answers) const {
  const auto refuse = [](EntryAnswer& answer, const DataLabel& label) {
    answer = arch::Refused{
        fmt::format("data lead to inside the jump: the word at {} to {}", label.word, label.target)};
  };
  std::vector<ElfAddr> inside;  // instructions; their very beginnings are what pointers to functions lead to
  for (auto& [address, answer] : answers) {
    const auto* patch = std::get_if<EntryPatch>(&answer);
    if (patch == nullptr) continue;
    const ElfAddr end = patch->at + patch->covered;
    const auto label = find_distance_label(file_, {address, address + patch->size}, {address, end});
    if (label) {
      refuse(answer, *label);
      continue;
    }
    for (ElfAddr at = address; at < end;) {
      if (at != address) inside.push_back(at);
      const auto insn = arch::decode(file_.bytes_at(at, arch::kMaxInsn), as_mapped(at));
      at = insn ? at + insn->length : end;
    }
  }
  for (const DataLabel& label : find_data_labels(file_, inside))
    refuse(std::prev(answers.lower_bound(label.target))->second, label);
}

}  // namespace

std::vector<EntryAnswer> examine_entries(const elf::ElfFile& file, std::span<const elf::Symbol> functions) {
  Examination examination(file);
  std::map<ElfAddr, EntryAnswer> by_address, shorter;
  for (const elf::Symbol& function : functions)
    if (!by_address.contains(function.address))
      by_address.emplace(function.address, examination.prologue_of(function, arch::kNearJump));
  examination.check_branches(by_address);
  examination.check_data(by_address);
  Padding padding(file, examination.starts());
  for (const elf::Symbol& function : functions)
    if (std::holds_alternative<arch::Refused>(by_address.at(function.address)) &&
        !shorter.contains(function.address))
      shorter.emplace(function.address, examination.short_entry_of(function, padding));
  std::erase_if(shorter,
                [](const auto& entry) { return std::holds_alternative<arch::Refused>(entry.second); });
  if (!shorter.empty()) {
    examination.check_branches(shorter);
    examination.check_data(shorter);
  }
  // Why the usual jump does not fit is the better reason.
  for (auto& [address, answer] : shorter)
    if (std::holds_alternative<EntryPatch>(answer)) by_address.at(address) = std::move(answer);
  std::vector<EntryAnswer> answers;
  for (const elf::Symbol& function : functions) answers.push_back(by_address.at(function.address));
  return answers;
}

}  // namespace rtrace::plan
