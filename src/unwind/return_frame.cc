#include "rtrace/unwind/return_frame.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "rtrace/unwind/frame_table.h"

namespace rtrace::unwind {
namespace {

constexpr std::byte kRet{0xc3};
// pop %rbx; pop %rbp; pop %r12; pop %r13; pop %r14; pop %r15
constexpr std::byte kPops[] = {std::byte{0x5b}, std::byte{0x5d}, std::byte{0x41}, std::byte{0x5c},
                               std::byte{0x41}, std::byte{0x5d}, std::byte{0x41}, std::byte{0x5e},
                               std::byte{0x41}, std::byte{0x5f}};
constexpr size_t kPopped[] = {3, 6, 12, 13, 14, 15};  // DWARF's numbers
constexpr uint64_t kEntry = 64;  // bytes of a function that a jump may be written over, and more

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

// Where the register is saved, from the CFA; 0: it is not.
int64_t saved_at(size_t reg, bool pops) {
  if (reg == Registers::kPc) return -kWord;
  const auto* popped = pops ? std::ranges::find(kPopped, reg) : std::end(kPopped);
  return popped == std::end(kPopped) ? 0 : -kWord * (1 + std::end(kPopped) - popped);
}

bool passes_all(const Row& row, const ReturnFrame& frame) {
  using enum Rule::Kind;
  const int64_t popped = frame.pops ? kWord * static_cast<int64_t>(std::size(kPopped)) : 0;
  if (row.signal_frame || row.personality) return false;
  if (row.cfa.kind != in_register || row.cfa.reg != Registers::kSp ||
      row.cfa.offset != frame.adds + popped + kWord)
    return false;
  for (size_t i = 0; i < Registers::kCount; ++i) {
    const Rule& rule = row.rules[i];
    const int64_t at = saved_at(i, frame.pops);
    const bool own =
        at != 0 ? rule.kind == at_offset && rule.offset == at : rule.kind == unspecified || rule.kind == same;
    if (!own) return false;
  }
  return true;
}

bool lies_deep_in(const std::vector<ElfRange>& functions, ElfAddr ret) {
  const auto after = std::ranges::upper_bound(functions, ret, {}, &ElfRange::begin);
  return after != functions.begin() && std::prev(after)->contains(ret) &&
         ret - std::prev(after)->begin >= kEntry;
}

}  // namespace

std::optional<ReturnFrame> find_return_frame(const std::shared_ptr<const elf::ElfFile>& file,
                                             const std::function<bool(uint32_t adds, bool pops)>& fits) {
  std::vector<ReturnFrame> candidates;
  for (const elf::Segment& segment : file->segments()) {
    if (!segment.executable) continue;
    const auto code = file->bytes_at(segment.memory.begin, segment.memory.size());
    for (auto at = code.begin(); (at = std::find(at, code.end(), kRet)) != code.end(); ++at) {
      auto place = static_cast<size_t>(at - code.begin());
      const bool pops = place >= std::size(kPops) &&
                        std::ranges::equal(code.subspan(place - std::size(kPops), std::size(kPops)), kPops);
      if (pops) place -= std::size(kPops);
      const auto adds = added_before(code.first(place));
      if (adds && fits(*adds, pops)) candidates.push_back({segment.memory.begin + place, *adds, pops});
    }
  }
  std::ranges::stable_sort(candidates, {}, &ReturnFrame::adds);
  FrameTable table(file);
  for (const ReturnFrame& candidate : candidates) {
    if (!lies_deep_in(file->frame_ranges(), candidate.ret)) continue;
    const Row* row = table.find(candidate.ret - 1);
    if (row != nullptr && passes_all(*row, candidate)) return candidate;
  }
  return std::nullopt;
}

}  // namespace rtrace::unwind
