#include "data_labels.h"

#include <algorithm>
#include <cstring>

namespace rtrace::plan {
namespace {

template <typename Word>
Word word_at(std::span<const std::byte> bytes, size_t at) {
  Word word;
  std::memcpy(&word, bytes.data() + at, sizeof word);
  return word;
}

ElfAddr beyond(ElfAddr base, int32_t distance) {
  return base + static_cast<uint64_t>(int64_t{distance});
}

bool is_code(const elf::ElfFile& file, ElfAddr address) {
  return std::ranges::any_of(file.segments(), [&](const elf::Segment& segment) {
    return segment.executable && segment.memory.contains(address);
  });
}

// `jmp *%reg`, with whatever prefixes before it.
bool may_jump_by_register(std::span<const std::byte> code) {
  constexpr std::byte kOpcode{0xff}, kMask{0xf8}, kJump{0xe0};
  for (size_t at = 0; at + 1 < code.size(); ++at)
    if (code[at] == kOpcode && (code[at + 1] & kMask) == kJump) return true;
  return false;
}

// What it may take the address of: `lea disp32(%rip), %reg`.
std::vector<ElfAddr> taken_addresses(std::span<const std::byte> code, ElfAddr begin) {
  constexpr std::byte kLea{0x8d}, kMask{0xc7}, kByRip{0x05};
  constexpr size_t kOpcode = 2, kLength = kOpcode + sizeof(int32_t);
  std::vector<ElfAddr> taken;
  for (size_t at = 0; at + kLength <= code.size(); ++at)
    if (code[at] == kLea && (code[at + 1] & kMask) == kByRip)
      taken.push_back(beyond(begin + at + kLength, word_at<int32_t>(code, at + kOpcode)));
  return taken;
}

std::optional<DataLabel> find_in_table(const elf::ElfFile& file, ElfAddr table, ElfAddr base,
                                       const ElfRange& target) {
  constexpr size_t kMost = size_t{1} << 16;  // elements
  const auto bytes = file.bytes_at(table, kMost * sizeof(int32_t));
  for (size_t at = 0; at + sizeof(int32_t) <= bytes.size(); at += sizeof(int32_t)) {
    const ElfAddr to = beyond(base, word_at<int32_t>(bytes, at));
    if (target.contains(to)) return DataLabel{table + at, to};
    if (!is_code(file, to)) break;
  }
  return std::nullopt;
}

}  // namespace

std::vector<DataLabel> find_data_labels(const elf::ElfFile& file, std::span<const ElfAddr> targets) {
  std::vector<DataLabel> found;
  if (targets.empty()) return found;
  const ElfAddr lowest = targets.front();
  const uint64_t width = targets.back() - lowest;
  const elf::FrameArea frames = file.eh_frame();  // whose bytes read as anything
  const ElfRange unwinding{frames.address, frames.address + frames.bytes.size()};
  for (const elf::Segment& segment : file.segments()) {
    const auto bytes = file.bytes_at(segment.memory.begin, segment.memory.size());
    const size_t aligned = -segment.memory.begin.value % sizeof(uint64_t);
    for (size_t at = aligned; at + sizeof(uint64_t) <= bytes.size(); at += sizeof(uint64_t)) {
      const ElfAddr target{word_at<uint64_t>(bytes, at)};
      if (target - lowest > width || !std::ranges::binary_search(targets, target)) continue;
      const ElfAddr word = segment.memory.begin + at;
      if (!unwinding.contains(word)) found.push_back({word, target});
    }
  }
  return found;
}

std::optional<DataLabel> find_distance_label(const elf::ElfFile& file, const ElfRange& function,
                                             const ElfRange& target) {
  const auto code = file.bytes_at(function.begin, function.size());
  if (!may_jump_by_register(code)) return std::nullopt;
  const std::vector<ElfAddr> taken = taken_addresses(code, function.begin);
  for (const ElfAddr table : taken) {
    if (function.contains(table)) continue;
    if (auto found = find_in_table(file, table, table, target)) return found;
    for (const ElfAddr base : taken)
      if (function.contains(base))
        if (auto found = find_in_table(file, table, base, target)) return found;
  }
  return std::nullopt;
}

}  // namespace rtrace::plan
