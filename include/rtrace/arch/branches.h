// Who branches to inside a range of code: asked before the first bytes of a function are overwritten.
//
// What is found are direct jumps, branches, loops and calls, and addresses taken relative to rip. Not found
// are addresses that lie in data: the jump table of a switch, the labels of a computed goto (plan looks for
// those). Code which nothing visible leads to is refused besides (relocate_prologue).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "rtrace/base/address.h"

namespace rtrace::arch {

struct Reference {
  enum class Kind : uint8_t { jump, call, address };  // jump: conditional ones too; address: lea

  VirtAddr place;  // of the opcode; prefixes may stand before it
  VirtAddr target;
  Kind kind = Kind::jump;
  bool operator==(const Reference&) const = default;
};

// Each place in `text`, which stands at `begin`, whose bytes read as an instruction that leads into one of
// the `targets` (sorted, not overlapping), by place. Candidates: not verified to be instructions; none is
// missed. Costs one to two nanoseconds a byte for one target, four to eight for thousands (m).
std::vector<Reference> find_references(std::span<const std::byte> text, VirtAddr begin,
                                       std::span<const Range> targets);

// Whether a candidate is real: `function` stands at `begin`, where an instruction starts, and contains its
// place. True also where decoding fails before it gets there.
bool is_reference(const Reference& candidate, std::span<const std::byte> function, VirtAddr begin);

// What a function itself branches to in its covered bytes, apart from the instructions there.
struct CoveredEntry {
  VirtAddr from;  // the function's first byte
  Range covered;  // Prologue::range()
};
// Whether a reference forbids the jump: any to strictly inside the covered bytes; and from the function
// itself (`own`) also a jump to its beginning, which is a loop, and would count as a call.
enum class Origin : uint8_t { same_function, elsewhere };
bool forbids(const Reference& reference, const CoveredEntry& entry, Origin origin);

// The first instruction outside the covered bytes of the function at entry.from that forbids the jump.
std::optional<Reference> branch_into(std::span<const std::byte> function, const CoveredEntry& entry);

}  // namespace rtrace::arch
