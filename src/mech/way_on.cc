#include "way_on.h"

#include <algorithm>

namespace rtrace::mech {

VirtAddr place_in_program(VirtAddr pc, const BreakpointSite& site) {
  const auto stands = [&](const arch::ResumePoint& point) {
    return site.copy + point.offset == pc && point.sp_adjust == 0;
  };
  const auto found = std::ranges::find_if(site.points, stands);
  return found != site.points.end() ? found->address : VirtAddr{};
}

VirtAddr way_on(VirtAddr pc, const BreakpointSite& site, const arch::Prologue& prologue, VirtAddr to) {
  const bool in_copy = site.copy && Range{site.copy, site.copy + site.copy_size}.contains(pc);
  if (!in_copy && (pc == site.address || pc == site.address + 1)) return pc;
  const VirtAddr own = in_copy ? place_in_program(pc, site) : pc;
  if (!own) return pc;
  // An endbr64 stays where it is, in front of the jump; behind it the jump would be met.
  if (own == site.address) return to;
  if (const auto offset = offset_in_copy(prologue, own)) return to + *offset;
  return prologue.range().contains(own) ? pc : own;
}

}  // namespace rtrace::mech
