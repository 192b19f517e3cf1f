#include "way_on.h"

#include <algorithm>

namespace rtrace::mech {
namespace {

// The program's own address for a place in the site's copy. 0: there is none with the same stack.
VirtAddr out_of(const BreakpointSite& site, VirtAddr pc) {
  const auto stands = [&](const arch::ResumePoint& point) {
    return site.copy + point.offset == pc && point.sp_adjust == 0;
  };
  const auto found = std::ranges::find_if(site.points, stands);
  return found != site.points.end() ? found->address : VirtAddr{};
}

}  // namespace

VirtAddr way_on(VirtAddr pc, const BreakpointSite& site, const arch::Prologue& prologue, VirtAddr to) {
  const bool in_copy = site.copy && Range{site.copy, site.copy + site.copy_size}.contains(pc);
  if (!in_copy && (pc == site.address || pc == site.address + 1)) return pc;
  const VirtAddr own = in_copy ? out_of(site, pc) : pc;
  if (!own) return pc;
  // An endbr64 stays where it is, in front of the jump; behind it the jump would be met.
  if (own == site.address) return to;
  if (const auto offset = offset_in_copy(prologue, own)) return to + *offset;
  return prologue.range().contains(own) ? pc : own;
}

}  // namespace rtrace::mech
