#include "slot_scan.h"

#include <emmintrin.h>

#include <algorithm>
#include <array>
#include <bit>

namespace rtrace::elf {
namespace {

constexpr std::byte kGroup5{0xff};  // opcode group 5, Intel SDM volume 2, table A-6
constexpr std::byte kCallIndirect{0x15},
    kJumpIndirect{0x25};  // ModRM: /2 and /4, mod 00, rm 101 = rip-relative

class Scan {
 public:
  Scan(const CodeBytes& code, std::span<const ElfAddr> slots) : code_(code), slots_(slots) {}

  std::vector<SlotReference> run() {
    if (slots_.empty() || code_.bytes.size() < kSlotReferenceLength) return {};
    size_t limit = code_.bytes.size() - kSlotReferenceLength + 1;
    size_t at = 0;
    // 16 places at a time: the text of a big library is tens of megabytes, and ff alone is one byte in thirty
    // of it.
    for (; at + 16 <= limit; at += 16)
      for (unsigned mask = candidates(at); mask != 0; mask &= mask - 1)
        take(at + static_cast<unsigned>(std::countr_zero(mask)));
    for (; at < limit; ++at)
      if (code_.bytes[at] == kGroup5) take(at);
    return std::move(found_);
  }

 private:
  unsigned candidates(size_t at) const {
    const auto* bytes = reinterpret_cast<const char*>(code_.bytes.data()) + at;
    __m128i opcodes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
    __m128i modrm = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes + 1));
    __m128i is_group = _mm_cmpeq_epi8(opcodes, _mm_set1_epi8(static_cast<char>(kGroup5)));
    __m128i is_call = _mm_cmpeq_epi8(modrm, _mm_set1_epi8(static_cast<char>(kCallIndirect)));
    __m128i is_jump = _mm_cmpeq_epi8(modrm, _mm_set1_epi8(static_cast<char>(kJumpIndirect)));
    return static_cast<unsigned>(_mm_movemask_epi8(_mm_and_si128(is_group, _mm_or_si128(is_call, is_jump))));
  }

  void take(size_t at) {
    std::byte modrm = code_.bytes[at + 1];
    if (modrm != kCallIndirect && modrm != kJumpIndirect) return;
    auto displacement = *load<int32_t>(code_.bytes, at + 2);
    ElfAddr address = code_.address + at;
    ElfAddr slot = address + kSlotReferenceLength + static_cast<uint64_t>(int64_t{displacement});
    if (slot < slots_.front() || slots_.back() < slot ||
        !std::binary_search(slots_.begin(), slots_.end(), slot))
      return;
    found_.push_back(
        {address, slot, modrm == kCallIndirect ? SlotReference::Kind::call : SlotReference::Kind::jump});
  }

  const CodeBytes& code_;
  std::span<const ElfAddr> slots_;
  std::vector<SlotReference> found_;
};

template <size_t N>
bool ends_with(Bytes bytes, uint64_t end, const std::array<uint8_t, N>& pattern) {
  return end >= N && std::memcmp(bytes.data() + (end - N), pattern.data(), N) == 0;
}

}  // namespace

std::vector<SlotReference> find_slot_references(const CodeBytes& code, std::span<const ElfAddr> slots) {
  return Scan(code, slots).run();
}

ElfAddr stub_begin(const CodeBytes& code, ElfAddr jump) {
  constexpr std::array<uint8_t, 4> kEndbr64 = {0xf3, 0x0f, 0x1e, 0xfa};
  constexpr std::array<uint8_t, 1> kBnd = {0xf2};
  constexpr std::array<uint8_t, 2> kMoveToR11d = {0x41, 0xbb};
  constexpr uint64_t kImmediate = 4;
  uint64_t begin = jump - code.address;
  if (ends_with(code.bytes, begin, kBnd)) begin -= kBnd.size();
  if (begin >= kImmediate && ends_with(code.bytes, begin - kImmediate, kMoveToR11d))
    begin -= kImmediate + kMoveToR11d.size();
  if (ends_with(code.bytes, begin, kEndbr64)) begin -= kEndbr64.size();
  return code.address + begin;
}

}  // namespace rtrace::elf
