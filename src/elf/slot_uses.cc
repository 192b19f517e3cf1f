#include "slot_uses.h"

#include <elf.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "bytes.h"

namespace rtrace::elf {
namespace {

constexpr uint64_t kSlot = sizeof(uint64_t);

std::vector<ElfAddr> sorted(std::vector<ElfAddr> slots) {
  std::sort(slots.begin(), slots.end());
  slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
  return slots;
}

uint8_t byte_at(const CodeBytes& code, size_t at) {
  return std::to_integer<uint8_t>(code.bytes[at]);
}

class UsesInCode {
 public:
  UsesInCode(const CodeBytes& code, const GotView& view) : code_(code), view_(view) {}

  std::vector<ElfAddr> run() {
    for (size_t at = 0; at + sizeof(int32_t) <= code_.bytes.size(); ++at)
      if (look(at)) return {view_.slots.begin(), view_.slots.end()};
    return sorted(std::move(found_));
  }

 private:
  // Whether an address is the GOT's is asked first: hardly any is, and the answer costs a comparison. True
  // where the whole GOT is addressed.
  bool look(size_t at) {
    constexpr std::array<uint64_t, 3> kImmediates = {1, 2, 4};
    constexpr uint64_t kMost = kImmediates.back();
    const auto value = *load<int32_t>(code_.bytes, at);
    const ElfAddr next = code_.address + at + sizeof value + static_cast<uint64_t>(int64_t{value});
    if (next - view_.got.begin + kMost < view_.got.size() + kMost && !goes_through(at)) {
      if (is_lea(at) && view_.got.contains(next)) return true;
      take_part(next);
      for (uint64_t immediate : kImmediates) take(next + immediate);
    }
    if (const ElfAddr absolute{static_cast<uint32_t>(value)}; view_.fixed && view_.got.contains(absolute))
      take(absolute);
    return is_distance_to_got(at);
  }

  void take(ElfAddr slot) {
    if (std::binary_search(view_.slots.begin(), view_.slots.end(), slot)) found_.push_back(slot);
  }
  void take_part(ElfAddr address) {
    auto behind = std::upper_bound(view_.slots.begin(), view_.slots.end(), address);
    if (behind != view_.slots.begin() && address - *std::prev(behind) < kSlot)
      found_.push_back(*std::prev(behind));
  }

  // ff 15, ff 25: group 5, Intel SDM volume 2, table A-6; ModRM /2 and /4, mod 00, rm 101 = rip-relative.
  bool goes_through(size_t at) const {
    return at >= 2 && byte_at(code_, at - 2) == 0xff &&
           (byte_at(code_, at - 1) == 0x15 || byte_at(code_, at - 1) == 0x25);
  }
  bool is_lea(size_t at) const {
    return at >= 2 && byte_at(code_, at - 2) == 0x8d && (byte_at(code_, at - 1) & 0xc7) == 0x05;
  }
  // psABI, "Position-Independent Function Prologue" of the large code model: `movabs $_GLOBAL_OFFSET_TABLE_ -
  // .L, %reg` near .L.
  bool is_distance_to_got(size_t at) const {
    constexpr uint64_t kNear = 64;
    if (at < 2 || (byte_at(code_, at - 2) & 0xfe) != 0x48 || (byte_at(code_, at - 1) & 0xf8) != 0xb8)
      return false;
    const auto distance = load<uint64_t>(code_.bytes, at);
    return distance &&
           code_.address + at + *distance - view_.got.begin + kNear < view_.got.size() + 2 * kNear;
  }

  const CodeBytes& code_;
  const GotView& view_;
  std::vector<ElfAddr> found_;
};

ElfRange got_of(const Image& image) {
  ElfRange got{};
  for (const Section& section : image.sections()) {
    if (!section.name().starts_with(".got")) continue;
    const ElfRange memory = section.memory();
    if (got.empty()) got = memory;
    got = {std::min(got.begin, memory.begin), std::max(got.end, memory.end)};
  }
  return got;
}

}  // namespace

std::vector<ElfAddr> uses_in_code(const CodeBytes& code, const GotView& view) {
  return UsesInCode(code, view).run();
}

// The distance may be to behind its own place, where the table has more in front of it.
std::vector<ElfAddr> uses_in_data(const CodeBytes& data, const GotView& view) {
  constexpr size_t kStep = sizeof(int32_t);
  constexpr uint64_t kMostBefore = 32;
  std::vector<ElfAddr> found;
  for (size_t at = (kStep - data.address.value % kStep) % kStep; at + kStep <= data.bytes.size();
       at += kStep) {
    const auto distance = *load<int32_t>(data.bytes, at);
    const ElfAddr place = data.address + at, target = place + static_cast<uint64_t>(int64_t{distance});
    if (distance == 0 || view.got.contains(place)) continue;
    if (target - view.got.begin >= view.got.size() + kMostBefore) continue;
    for (uint64_t before = 0; before < kMostBefore; before += kStep)
      if (const ElfAddr slot = target - before;
          std::binary_search(view.slots.begin(), view.slots.end(), slot))
        found.push_back(slot);
  }
  return sorted(std::move(found));
}

std::vector<ElfAddr> also_in_data(const Relocations& relocations, std::span<const ElfAddr> slots) {
  std::multimap<uint64_t, ElfAddr> by_symbol;
  relocations.for_each_slot([&](const Elf64_Rela& relocation) {
    const ElfAddr slot{relocation.r_offset};
    if (std::binary_search(slots.begin(), slots.end(), slot))
      by_symbol.emplace(ELF64_R_SYM(relocation.r_info), slot);
  });
  std::vector<ElfAddr> found;
  relocations.for_each_named([&](const Elf64_Rela& relocation) {
    const auto type = ELF64_R_TYPE(relocation.r_info);
    if (type == R_X86_64_GLOB_DAT || type == R_X86_64_JUMP_SLOT) return;
    const auto [first, last] = by_symbol.equal_range(ELF64_R_SYM(relocation.r_info));
    for (auto slot = first; slot != last; ++slot) found.push_back(slot->second);
  });
  return sorted(std::move(found));
}

std::vector<ElfAddr> find_other_uses(const Image& image, const Relocations& relocations,
                                     std::vector<ElfAddr> slots) {
  slots = sorted(std::move(slots));
  const GotView view{slots, got_of(image), image.header().e_type == ET_EXEC};
  if (view.got.empty()) return slots;
  std::vector<ElfAddr> used = also_in_data(relocations, slots);
  const auto add = [&](const std::vector<ElfAddr>& here) {
    used.insert(used.end(), here.begin(), here.end());
  };
  for (const Segment& segment : image.segments())
    if (segment.executable) add(uses_in_code({segment.memory.begin, image.at(segment.memory.begin)}, view));
  for (const Section& section : image.sections())
    if (section.name().starts_with(".rodata") || section.name().starts_with(".data"))
      add(uses_in_data({section.memory().begin, image.contents(section)}, view));
  return sorted(std::move(used));
}

}  // namespace rtrace::elf
