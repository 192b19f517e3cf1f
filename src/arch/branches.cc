#include "rtrace/arch/branches.h"

#include <algorithm>
#include <cstring>

#include "rtrace/arch/insn.h"

namespace rtrace::arch {
namespace {

struct Opcode {
  Reference::Kind kind;
  size_t length;
};

// What ends directly before the four bytes of a displacement at `at`, if they are one.
std::optional<Opcode> opcode_before(const uint8_t* bytes, size_t at) {
  using Kind = Reference::Kind;
  uint8_t last = bytes[at - 1];
  if (last == 0xe8) return Opcode{Kind::call, 1};
  if (last == 0xe9) return Opcode{Kind::jump, 1};
  if (at < 2) return std::nullopt;
  uint8_t first = bytes[at - 2];
  if (first == 0x0f && (last & 0xf0) == 0x80) return Opcode{Kind::jump, 2};
  if (first == 0x8d && (last & 0xc7) == 0x05) return Opcode{Kind::address, 2};  // lea disp32(%rip)
  if (first == 0xc7 && last == 0xf8) return Opcode{Kind::jump, 2};              // xbegin
  return std::nullopt;
}

// jcc, loop, jrcxz, jmp.
bool is_short_jump(uint8_t code) {
  return (code & 0xf0) == 0x70 || (code & 0xfc) == 0xe0 || code == 0xeb;
}

bool in_one_of(std::span<const Range> ranges, VirtAddr address) {
  auto behind = std::upper_bound(ranges.begin(), ranges.end(), address,
                                 [](VirtAddr wanted, const Range& range) { return wanted < range.begin; });
  return behind != ranges.begin() && std::prev(behind)->contains(address);
}

// Whether the address that a displacement leads to is a target is asked first: hardly any is, and the answer
// costs a load, an addition and a comparison.
void find_long(std::span<const std::byte> text, VirtAddr begin, std::span<const Range> targets,
               std::vector<Reference>& found) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  VirtAddr lowest = targets.front().begin;
  uint64_t width = targets.back().end - lowest;
  for (size_t at = 1; at + sizeof(int32_t) <= text.size(); ++at) {
    int32_t displacement;
    std::memcpy(&displacement, bytes + at, sizeof displacement);
    VirtAddr target = begin + at + sizeof displacement + static_cast<uint64_t>(int64_t{displacement});
    if (target - lowest >= width) continue;
    std::optional<Opcode> opcode = opcode_before(bytes, at);
    if (opcode && in_one_of(targets, target))
      found.push_back({begin + at - opcode->length, target, opcode->kind});
  }
}

void find_short(std::span<const std::byte> text, VirtAddr begin, Range target,
                std::vector<Reference>& found) {
  constexpr uint64_t kReach = 128 + 2;
  VirtAddr end = begin + text.size();
  VirtAddr first = target.begin.value < kReach ? begin : std::max(begin, target.begin - kReach);
  VirtAddr last = std::min(end, target.end + kReach);
  for (VirtAddr place = first; place + 1 < last; place = place + 1) {
    std::byte code = text[place - begin], displacement = text[place - begin + 1];
    if (!is_short_jump(std::to_integer<uint8_t>(code))) continue;
    VirtAddr to = place + 2 + static_cast<uint64_t>(int64_t{std::to_integer<int8_t>(displacement)});
    if (target.contains(to)) found.push_back({place, to, Reference::Kind::jump});
  }
}

}  // namespace

std::vector<Reference> find_references(std::span<const std::byte> text, VirtAddr begin,
                                       std::span<const Range> targets) {
  std::vector<Reference> found;
  if (targets.empty()) return found;
  find_long(text, begin, targets, found);
  for (const Range& target : targets) find_short(text, begin, target, found);
  std::sort(found.begin(), found.end(),
            [](const Reference& a, const Reference& b) { return a.place < b.place; });
  return found;
}

bool is_reference(const Reference& candidate, std::span<const std::byte> function, VirtAddr begin) {
  for (VirtAddr at = begin; at <= candidate.place;) {
    auto insn = decode(function.subspan(std::min<uint64_t>(at - begin, function.size())), at);
    if (!insn) return true;
    VirtAddr next = at + insn->length;
    if (candidate.place < next)
      return insn->target == candidate.target ||
             (candidate.kind == Reference::Kind::address && insn->rip_reference == candidate.target);
    at = next;
  }
  return false;
}

bool forbids(const Reference& reference, const CoveredEntry& entry, Origin origin) {
  bool own = origin == Origin::same_function;
  if (own && entry.covered.contains(reference.place)) return false;
  if (reference.target > entry.covered.begin && reference.target < entry.covered.end) return true;
  return own && reference.kind == Reference::Kind::jump &&
         Range{entry.from, entry.covered.end}.contains(reference.target);
}

std::optional<Reference> branch_into(std::span<const std::byte> function, const CoveredEntry& entry) {
  const Range targets[] = {{entry.from, entry.covered.end}};
  for (const Reference& candidate : find_references(function, entry.from, targets))
    if (forbids(candidate, entry, Origin::same_function) && is_reference(candidate, function, entry.from))
      return candidate;
  return std::nullopt;
}

}  // namespace rtrace::arch
