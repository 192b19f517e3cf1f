#include <algorithm>

#include "planners.h"
#include "rtrace/arch/insn.h"
#include "rtrace/arch/register_jumps.h"

namespace rtrace::plan {

// .eh_frame first: its ranges are exact, and stripped objects have them too.
std::optional<ElfRange> function_around(const elf::ElfFile& file, ElfAddr address) {
  const auto& ranges = file.frame_ranges();
  auto behind = std::upper_bound(ranges.begin(), ranges.end(), address,
                                 [](ElfAddr wanted, const ElfRange& range) { return wanted < range.begin; });
  if (behind != ranges.begin() && std::prev(behind)->contains(address)) return *std::prev(behind);
  if (auto function = file.function_at(address))
    return ElfRange{function->address, function->address + function->size};
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
  const auto function = function_around(file, address);
  return function && walk(file, function->begin, address) == address;
}

std::vector<ElfAddr> register_jumps(const elf::ElfFile& file, const elf::CallSlot& slot) {
  std::vector<ElfAddr> found;
  ElfRange last{};
  for (const ElfAddr load : slot.loads) {  // in the order of addresses
    const auto function = function_around(file, load);
    if (!function || *function == last) continue;
    last = *function;
    const VirtAddr begin{function->begin.value};
    for (const VirtAddr jump : arch::find_register_jumps(file.bytes_at(function->begin, function->size()),
                                                         begin, {slot.slot.value}))
      found.push_back({jump.value});
  }
  return found;
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
