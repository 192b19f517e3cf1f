#include <algorithm>

#include "planners.h"
#include "rtrace/arch/insn.h"

namespace rtrace::plan {

// .eh_frame first: its ranges are exact, and stripped objects have them too.
std::optional<ElfAddr> function_start(const elf::ElfFile& file, ElfAddr address) {
  const auto& ranges = file.frame_ranges();
  auto behind = std::upper_bound(ranges.begin(), ranges.end(), address,
                                 [](ElfAddr wanted, const ElfRange& range) { return wanted < range.begin; });
  if (behind != ranges.begin() && std::prev(behind)->contains(address)) return std::prev(behind)->begin;
  if (auto function = file.function_at(address)) return function->address;
  return std::nullopt;
}

namespace {

// From the beginning of an instruction: that of the first one that does not begin in front of the address.
// nullopt where the bytes are none.
std::optional<ElfAddr> walk(const elf::ElfFile& file, ElfAddr from, ElfAddr address) {
  while (from < address) {
    const auto insn = arch::decode(file.bytes_at(from, arch::kMaxInsn), VirtAddr{from.value});
    if (!insn || insn->length == 0) return std::nullopt;
    from = from + insn->length;
  }
  return from;
}

}  // namespace

bool is_instruction_start(const elf::ElfFile& file, ElfAddr address) {
  const auto start = function_start(file, address);
  return start && walk(file, *start, address) == address;
}

SymbolPlaces::SymbolPlaces(const elf::ElfFile& file)
    : file_(file), index_area_(file.eh_frame_index()), index_(elf::FrameIndex::of(index_area_)) {}

bool SymbolPlaces::may_begin_at(ElfAddr address) {
  // Nearly all are a function's first.
  const auto row = index_ ? index_->last_not_behind(address) : std::nullopt;
  if (row && row->function == address) return true;
  const auto& ranges = file_.frame_ranges();
  const auto behind = std::ranges::upper_bound(ranges, address, {}, &ElfRange::begin);
  if (behind == ranges.begin() || !std::prev(behind)->contains(address)) return true;
  const ElfAddr begin = std::prev(behind)->begin;
  if (function_ != begin || address < asked_) function_ = begin, reached_ = begin;
  asked_ = address;
  if (reached_ && *reached_ < address) reached_ = walk(file_, *reached_, address);
  return reached_ == address;
}

}  // namespace rtrace::plan
