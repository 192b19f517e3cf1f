#include "units.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace rtrace::dwarf {
namespace {

constexpr size_t kMaxUnits = size_t{1} << 20;
constexpr size_t kMaxRanges = size_t{1} << 16;

}  // namespace

std::vector<ElfRange> ranges_of(const Die& die) {
  std::vector<ElfRange> ranges;
  Die self = die;
  Dwarf_Addr base = 0, begin = 0, end = 0;
  ptrdiff_t next = 0;
  while (ranges.size() < kMaxRanges && (next = dwarf_ranges(&self, next, &base, &begin, &end)) > 0)
    if (begin < end) ranges.push_back({{begin}, {end}});
  return ranges;
}

std::optional<Die> Units::by_aranges(ElfAddr address) {
  Dwarf_Aranges* table = nullptr;
  size_t count = 0;
  // libdw keeps the table it has made.
  if (dwarf_getaranges(dwarf_, &table, &count) != 0 || count == 0) return std::nullopt;
  Dwarf_Arange* found = dwarf_getarange_addr(table, address.value);
  Dwarf_Off offset = 0;
  Die unit;
  if (found == nullptr || dwarf_getarangeinfo(found, nullptr, nullptr, &offset) != 0 ||
      dwarf_offdie(dwarf_, offset, &unit) == nullptr)
    return std::nullopt;
  return unit;
}

const std::vector<Die>& Units::all() {
  if (all_) return *all_;
  all_.emplace();
  Dwarf_CU* unit = nullptr;
  Die die;
  uint8_t type = 0;
  while (all_->size() < kMaxUnits && dwarf_get_units(dwarf_, unit, &unit, nullptr, &type, &die, nullptr) == 0)
    if (type == DW_UT_compile || type == DW_UT_skeleton) all_->push_back(die);
  return *all_;
}

const std::vector<Units::Extent>& Units::extents() {
  if (extents_) return *extents_;
  extents_.emplace();
  const auto& units = all();
  for (size_t i = 0; i < units.size() && extents_->size() < kMaxUnits; ++i)
    for (const ElfRange& range : ranges_of(units[i])) extents_->push_back({range, i});
  std::sort(extents_->begin(), extents_->end(),
            [](const Extent& a, const Extent& b) { return a.range.begin < b.range.begin; });
  return *extents_;
}

std::optional<Die> Units::holding(ElfAddr address) {
  if (auto found = by_aranges(address)) return found;
  const auto& sorted = extents();
  auto after = std::upper_bound(sorted.begin(), sorted.end(), address,
                                [](ElfAddr wanted, const Extent& e) { return wanted < e.range.begin; });
  if (after == sorted.begin() || !std::prev(after)->range.contains(address)) return std::nullopt;
  return all()[std::prev(after)->unit];
}

std::string why_unreadable(const Die& unit) {
  for (unsigned attribute : {unsigned{DW_AT_dwo_name}, unsigned{DW_AT_GNU_dwo_name}}) {
    std::string_view file = raw_text(unit, attribute);
    if (!file.empty())
      return fmt::format("compiled with -gsplit-dwarf: its debug info lies in {}, which is not read",
                         printable(file));
  }
  auto language = constant(unit, DW_AT_language);
  if (language == uint64_t{DW_LANG_Mips_Assembler}) return "assembly, whose debug info has no prototypes";
  if (language == uint64_t{DW_LANG_Go}) return "Go, which has a calling convention of its own";
  return {};
}

}  // namespace rtrace::dwarf
