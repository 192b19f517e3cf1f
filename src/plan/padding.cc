#include "padding.h"

#include <algorithm>
#include <cstdint>

#include "rtrace/arch/jump.h"
#include "rtrace/arch/prologue.h"

namespace rtrace::plan {
namespace {

constexpr uint64_t kReach = 128;      // of a short jump, at most
constexpr uint64_t kLongest = 16384;  // of a function that is read to its end

}  // namespace

// The nearest before it, else the nearest behind: so variants of one function that stand in a row do not take
// each other's.
std::optional<ElfAddr> Padding::take_near(ElfAddr at) {
  const std::vector<ElfRange>& functions = file_.frame_ranges();
  // But for where frames overlap, they end in the order in which they begin.
  auto next = std::upper_bound(functions.begin(), functions.end(), at + arch::kShortJump + INT8_MAX,
                               [](ElfAddr address, const ElfRange& range) { return address < range.begin; });
  std::optional<ElfAddr> found;
  for (; next != functions.begin() && (!found || *found > at); --next) {
    const ElfRange& function = *std::prev(next);
    if (function.end + kReach < at) break;
    const bool reached = arch::encode_short_jmp(as_mapped(at), as_mapped(function.end)).has_value();
    const bool taken = std::ranges::find(taken_, function.end) != taken_.end();
    if (reached && !taken && serves(function)) found = function.end;
  }
  if (found) taken_.push_back(*found);
  return found;
}

bool Padding::serves(const ElfRange& function) const {
  const auto behind = std::ranges::lower_bound(starts_, function.end);
  if (behind != starts_.end() && *behind - function.end < arch::kNearJump) return false;
  // All padding, up to what an instruction that begins there may have.
  const auto room = file_.bytes_at(function.end, arch::kNearJump + arch::kMaxInsn);
  if (!arch::is_padding(room, as_mapped(function.end), arch::kNearJump) || function.size() > kLongest)
    return false;
  const auto code = file_.bytes_at(function.begin, function.size());
  return code.size() == function.size() && arch::ends_for_good(code, as_mapped(function.begin));
}

}  // namespace rtrace::plan
