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

bool is_instruction_start(const elf::ElfFile& file, ElfAddr address) {
  auto start = function_start(file, address);
  if (!start) return false;
  for (ElfAddr at = *start; at <= address;) {
    if (at == address) return true;
    auto insn = arch::decode(file.bytes_at(at, arch::kMaxInsn), VirtAddr{at.value});
    if (!insn || insn->length == 0) return false;
    at = at + insn->length;
  }
  return false;
}

}  // namespace rtrace::plan
