#include "rtrace/unwind/return_frame.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "rtrace/unwind/frame_table.h"

namespace rtrace::unwind {
namespace {

constexpr std::byte kRet{0xc3};
constexpr uint64_t kEntry = 64;  // bytes of a function that a jump may be written over, and more
constexpr int64_t kMostPadded = 256;

// What the code in front of a `ret` adds to the stack pointer.
std::optional<uint32_t> added_before(std::span<const std::byte> code) {
  constexpr std::byte kAdd8[] = {std::byte{0x48}, std::byte{0x83}, std::byte{0xc4}};   // add $imm8, %rsp
  constexpr std::byte kAdd32[] = {std::byte{0x48}, std::byte{0x81}, std::byte{0xc4}};  // add $imm32, %rsp
  const auto ends_in = [&](std::span<const std::byte> insn, size_t operand) {
    return code.size() >= insn.size() + operand &&
           std::ranges::equal(code.last(insn.size() + operand).first(insn.size()), insn);
  };
  int32_t adds = 0;
  if (ends_in(kAdd8, 1))
    adds = static_cast<int8_t>(code.back());
  else if (ends_in(kAdd32, sizeof adds))
    std::memcpy(&adds, code.last(sizeof adds).data(), sizeof adds);
  return adds > 0 ? std::optional(static_cast<uint32_t>(adds)) : std::nullopt;
}

constexpr int64_t kWord = sizeof(uint64_t);
constexpr size_t kPushed[] = {Registers::kPc, Registers::kBp, 15, 14, 13, 12, 3};  // DWARF's numbers

// Of the registers, those in `saved` lie below the CFA in that order, and all others are the caller's.
bool passes_all(const Row& row, std::span<const size_t> saved) {
  using enum Rule::Kind;
  if (row.signal_frame || row.personality || row.cfa.kind != in_register) return false;
  for (size_t i = 0; i < Registers::kCount; ++i) {
    const Rule& rule = row.rules[i];
    const auto place = std::ranges::find(saved, i);
    const int64_t at = -kWord * (1 + (place - saved.begin()));
    const bool own = place != saved.end() ? rule.kind == at_offset && rule.offset == at
                                          : rule.kind == unspecified || rule.kind == same;
    if (!own) return false;
  }
  return true;
}

bool is_return_frame(const Row& row, uint32_t adds) {
  return passes_all(row, std::span(kPushed).first(1)) && row.cfa.reg == Registers::kSp &&
         row.cfa.offset == adds + kWord;
}

bool is_calling_frame(const Row& row) {
  return passes_all(row, kPushed) && row.cfa.reg == Registers::kBp && row.cfa.offset == 2 * kWord;
}

// What `code` calls through, if that is what it does. 0: it does not.
uint8_t called_register(std::span<const std::byte> code) {
  constexpr std::byte kExtended{0x41}, kCall{0xff};
  constexpr uint8_t kThrough = 0xd0, kRbx = 3, kR12 = 4;
  const bool extended = !code.empty() && code[0] == kExtended;
  if (extended) code = code.subspan(1);
  if (code.size() < 2 || code[0] != kCall) return 0;
  const auto reg = static_cast<uint8_t>(std::to_integer<uint8_t>(code[1]) - kThrough);
  if (!extended) return reg == kRbx ? reg : 0;
  return reg >= kR12 && reg < 8 ? reg + 8 : 0;
}

bool lies_deep_in(const std::vector<ElfRange>& functions, ElfAddr ret) {
  const auto after = std::ranges::upper_bound(functions, ret, {}, &ElfRange::begin);
  return after != functions.begin() && std::prev(after)->contains(ret) &&
         ret - std::prev(after)->begin >= kEntry;
}

// The last byte of any that assemblers fill room with.
bool ends_a_nop(std::byte last) {
  constexpr std::byte kNop{0x90}, kDisplacement{0};
  return last == kNop || last == kDisplacement;
}

// What holds from the first byte in front of the `ret` to the last. At the `ret` nothing is left of it, so
// that no code goes on from there to here.
std::optional<uint32_t> padded_frame(FrameTable& table, ElfAddr ret, size_t room) {
  const Row* row = table.find(ret - 1);
  if (row == nullptr || row->cfa.offset < 2 * kWord || row->cfa.offset > kMostPadded) return std::nullopt;
  const auto adds = static_cast<uint32_t>(row->cfa.offset - kWord);
  if (adds % kWord != 0 || !is_return_frame(*row, adds)) return std::nullopt;
  const Row* first = table.find(ret - room);
  if (first == nullptr || !is_return_frame(*first, adds)) return std::nullopt;
  const Row* last = table.find(ret);
  return last != nullptr && is_return_frame(*last, 0) ? std::optional(adds) : std::nullopt;
}

}  // namespace

std::optional<ReturnFrame> find_return_frame(const std::shared_ptr<const elf::ElfFile>& file,
                                             const std::function<bool(uint32_t adds)>& fits) {
  std::vector<ReturnFrame> candidates;
  for (const elf::Segment& segment : file->segments()) {
    if (!segment.executable) continue;
    const auto code = file->bytes_at(segment.memory.begin, segment.memory.size());
    for (auto at = code.begin(); (at = std::find(at, code.end(), kRet)) != code.end(); ++at) {
      const auto place = static_cast<size_t>(at - code.begin());
      const auto adds = added_before(code.first(place));
      if (adds && fits(*adds)) candidates.push_back({segment.memory.begin + place, *adds});
    }
  }
  std::ranges::stable_sort(candidates, {}, &ReturnFrame::adds);
  FrameTable table(file);
  for (const ReturnFrame& candidate : candidates) {
    if (!lies_deep_in(file->frame_ranges(), candidate.ret)) continue;
    const Row* row = table.find(candidate.ret - 1);
    if (row != nullptr && is_return_frame(*row, candidate.adds)) return candidate;
  }
  return std::nullopt;
}

std::vector<ReturnFrame> find_padded_returns(const std::shared_ptr<const elf::ElfFile>& file, size_t room) {
  std::vector<ReturnFrame> found;
  FrameTable table(file);
  for (const elf::Segment& segment : file->segments()) {
    if (!segment.executable) continue;
    const auto code = file->bytes_at(segment.memory.begin, segment.memory.size());
    for (auto at = code.begin(); (at = std::find(at, code.end(), kRet)) != code.end(); ++at) {
      const auto place = static_cast<size_t>(at - code.begin());
      const ElfAddr ret = segment.memory.begin + place;
      if (place < room || !ends_a_nop(*(at - 1)) || !lies_deep_in(file->frame_ranges(), ret)) continue;
      if (const auto frame = padded_frame(table, ret, room)) found.push_back({ret, *frame});
    }
  }
  std::ranges::stable_sort(found, {}, &ReturnFrame::adds);
  return found;
}

std::vector<CallingFrame> find_calling_frames(const std::shared_ptr<const elf::ElfFile>& file) {
  std::vector<CallingFrame> found;
  FrameTable table(file);
  for (const elf::Segment& segment : file->segments()) {
    if (!segment.executable) continue;
    const auto code = file->bytes_at(segment.memory.begin, segment.memory.size());
    for (size_t place = 0; place < code.size(); ++place) {
      const uint8_t reg = called_register(code.subspan(place));
      const ElfAddr ret = segment.memory.begin + place;
      if (reg == 0 || !lies_deep_in(file->frame_ranges(), ret)) continue;
      const Row* row = table.find(ret - 1);
      if (row != nullptr && is_calling_frame(*row)) found.push_back({ret, reg});
    }
  }
  return found;
}

}  // namespace rtrace::unwind
