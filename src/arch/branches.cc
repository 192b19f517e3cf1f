#include "rtrace/arch/branches.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "rtrace/arch/insn.h"

namespace rtrace::arch {
namespace {

// What a byte may be the opcode of.
enum class Shape : uint8_t { none, short_jump, near_jump, near_call, two_byte, lea, xbegin };

constexpr std::array<Shape, 256> kShapes = [] {
  std::array<Shape, 256> shapes{};
  for (size_t code = 0x70; code <= 0x7f; ++code) shapes[code] = Shape::short_jump;
  for (size_t code = 0xe0; code <= 0xe3; ++code) shapes[code] = Shape::short_jump;  // loop, jrcxz
  shapes[0xeb] = Shape::short_jump;
  shapes[0xe9] = Shape::near_jump;
  shapes[0xe8] = Shape::near_call;
  shapes[0x0f] = Shape::two_byte;
  shapes[0x8d] = Shape::lea;
  shapes[0xc7] = Shape::xbegin;
  return shapes;
}();

struct Reading {
  Reference::Kind kind;
  size_t displacement_at;
  size_t size;
};

// How the bytes at `code` read.
std::optional<Reading> read(const uint8_t* code) {
  using Kind = Reference::Kind;
  switch (kShapes[code[0]]) {
    case Shape::none:
      return std::nullopt;
    case Shape::short_jump:
      return Reading{Kind::jump, 1, 1};
    case Shape::near_jump:
      return Reading{Kind::jump, 1, 4};
    case Shape::near_call:
      return Reading{Kind::call, 1, 4};
    case Shape::two_byte:
      return (code[1] & 0xf0) == 0x80 ? std::optional(Reading{Kind::jump, 2, 4}) : std::nullopt;
    case Shape::lea:
      return (code[1] & 0xc7) == 0x05 ? std::optional(Reading{Kind::address, 2, 4}) : std::nullopt;
    case Shape::xbegin:
      return code[1] == 0xf8 ? std::optional(Reading{Kind::jump, 2, 4}) : std::nullopt;
  }
  return std::nullopt;
}

constexpr size_t kLongest = 6;

const Range* range_of(VirtAddr address, std::span<const Range> ranges) {
  auto behind = std::upper_bound(ranges.begin(), ranges.end(), address,
                                 [](VirtAddr wanted, const Range& range) { return wanted < range.begin; });
  if (behind == ranges.begin()) return nullptr;
  const Range& range = *std::prev(behind);
  return range.contains(address) ? &range : nullptr;
}

}  // namespace

std::vector<Reference> find_references(std::span<const std::byte> text, VirtAddr begin,
                                       std::span<const Range> targets) {
  std::vector<Reference> found;
  if (targets.empty()) return found;
  Range all{targets.front().begin, targets.back().end};
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  auto look = [&](const uint8_t* code, size_t offset, size_t left) {
    std::optional<Reading> reading = read(code);
    if (!reading || reading->displacement_at + reading->size > left) return;
    int64_t displacement = static_cast<int8_t>(code[1]);
    if (reading->size == 4) {
      int32_t wide;
      std::memcpy(&wide, code + reading->displacement_at, sizeof wide);
      displacement = wide;
    }
    VirtAddr next = begin + offset + reading->displacement_at + reading->size;
    VirtAddr target = next + static_cast<uint64_t>(displacement);
    if (all.contains(target) && range_of(target, targets) != nullptr)
      found.push_back({begin + offset, target, reading->kind});
  };
  size_t offset = 0;
  for (; offset + kLongest <= text.size(); ++offset)
    if (kShapes[bytes[offset]] != Shape::none) look(bytes + offset, offset, kLongest);
  for (; offset < text.size(); ++offset) {
    std::array<uint8_t, kLongest> tail{};
    std::memcpy(tail.data(), bytes + offset, text.size() - offset);
    look(tail.data(), offset, text.size() - offset);
  }
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
