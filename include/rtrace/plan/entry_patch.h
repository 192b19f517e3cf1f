// Whether the jump of a trampoline fits at a function's entry, as far as the object's file tells: the case
// for and against is the same in every process that maps it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "rtrace/arch/prologue.h"
#include "rtrace/elf/elf_file.h"

namespace rtrace::plan {

struct EntryPatch {
  ElfAddr function;
  uint64_t room =
      0;  // up to where something else begins, kEntryWindow at most: the length of EntryCode::bytes
  uint64_t size = 0;  // EntryCode::size
  ElfAddr at;         // Prologue::at
  uint8_t covered = 0;
  bool calls = false;
  // Where only a short jump fits: padding that nothing leads to, five bytes of it, for the jump to the
  // wrapper.
  std::optional<ElfAddr> hop = std::nullopt;
  bool operator==(const EntryPatch&) const = default;

  // Bytes from the function on that the jump stands on or that move: what is behind may be another's.
  uint64_t needed() const {
    return at - function + std::max<uint64_t>(covered, hop ? arch::kShortJump : arch::kNearJump);
  }
};

using EntryAnswer = std::variant<EntryPatch, arch::Refused>;

// One answer for each of the functions. The object's text is searched once for branches into what would be
// overwritten, so ask for many together (m: one function of libcrypto 3 ms, all 5363 of them 22 ms; one of
// libLLVM, which has 100 MB of text, 180 ms); once more where a near jump does not fit and a short one might.
std::vector<EntryAnswer> examine_entries(const elf::ElfFile& file, std::span<const elf::Symbol> functions);

}  // namespace rtrace::plan
