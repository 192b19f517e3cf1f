#include "slot_scan.h"

#include <emmintrin.h>

#include <algorithm>
#include <array>
#include <bit>
#include <optional>

namespace rtrace::elf {
namespace {

constexpr std::byte kGroup5{0xff};  // opcode group 5, Intel SDM volume 2, table A-6
constexpr std::byte kCallIndirect{0x15},
    kJumpIndirect{0x25};                                // ModRM: /2 and /4, mod 00, rm 101 = rip-relative
constexpr std::byte kMove{0x8b};                        // mov r64, r/m64 with REX.W before it
constexpr std::byte kNotReg{0xc7}, kRipRelative{0x05};  // of ModRM: mod 00, rm 101, whatever the register
// Bytes behind a load in which a call by the register is looked for. What calls leave alone may hold it for
// as long as a loop takes; any other register is soon used for something else.
constexpr size_t kKeptFor = 4096, kHeldFor = 64;
constexpr uint8_t kRbx = 3, kRbp = 5, kR12 = 12;  // psABI, figure 3.4
constexpr std::byte kReturn{0xc3};

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
      if (code_.bytes[at] == kGroup5 || code_.bytes[at] == kMove) take(at);
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
    __m128i through = _mm_and_si128(is_group, _mm_or_si128(is_call, is_jump));
    __m128i is_move = _mm_cmpeq_epi8(opcodes, _mm_set1_epi8(static_cast<char>(kMove)));
    __m128i form = _mm_and_si128(modrm, _mm_set1_epi8(static_cast<char>(kNotReg)));
    __m128i is_relative = _mm_cmpeq_epi8(form, _mm_set1_epi8(static_cast<char>(kRipRelative)));
    return static_cast<unsigned>(
        _mm_movemask_epi8(_mm_or_si128(through, _mm_and_si128(is_move, is_relative))));
  }

  SlotReference::Kind kind_of(size_t at) const {
    if (code_.bytes[at] == kMove)
      return is_called_later(at) ? SlotReference::Kind::load : SlotReference::Kind::address;
    return code_.bytes[at + 1] == kCallIndirect ? SlotReference::Kind::call : SlotReference::Kind::jump;
  }

  bool may_be_reference(size_t at) const {
    const std::byte modrm = code_.bytes[at + 1];
    if (code_.bytes[at] == kMove) return (modrm & kNotReg) == kRipRelative && rex_of_load(at);
    return modrm == kCallIndirect || modrm == kJumpIndirect;
  }

  std::optional<uint8_t> rex_of_load(size_t at) const {
    constexpr uint8_t kRexW = 0x48, kRexR = 0x04;
    if (at == 0) return std::nullopt;
    const auto rex = std::to_integer<uint8_t>(code_.bytes[at - 1]);
    return (rex & ~kRexR) == kRexW ? std::optional(rex) : std::nullopt;
  }

  // `call *%reg` or `jmp *%reg`, with the register that is loaded there: else it is a pointer like any other.
  bool is_called_later(size_t at) const {
    const bool high = (*rex_of_load(at) & 0x04) != 0;
    const uint8_t low = std::to_integer<uint8_t>(code_.bytes[at + 1]) >> 3 & 7;
    const auto reg = static_cast<uint8_t>(low + (high ? 8 : 0));
    const bool is_kept = reg == kRbx || reg == kRbp || reg >= kR12;
    const std::byte call{static_cast<uint8_t>(0xd0 + low)}, jump{static_cast<uint8_t>(0xe0 + low)};
    const size_t begin = at + kSlotReferenceLength;
    const size_t end = std::min(code_.bytes.size(), begin + (is_kept ? kKeptFor : kHeldFor));
    for (size_t i = begin; i + 1 < end; ++i) {
      if (!is_kept && (code_.bytes[i] == kReturn || may_load(i, low))) return false;
      if (code_.bytes[i] != kGroup5 || (code_.bytes[i + 1] != call && code_.bytes[i + 1] != jump)) continue;
      if ((code_.bytes[i - 1] == std::byte{0x41}) == high) return true;
    }
    return false;
  }

  // Anything else into a register of these three bits.
  bool may_load(size_t at, uint8_t low) const {
    return code_.bytes[at] == kMove && (std::to_integer<uint8_t>(code_.bytes[at + 1]) >> 3 & 7) == low;
  }

  void take(size_t at) {
    if (!may_be_reference(at)) return;
    auto displacement = *load<int32_t>(code_.bytes, at + 2);
    ElfAddr address = code_.address + at;
    ElfAddr slot = address + kSlotReferenceLength + static_cast<uint64_t>(int64_t{displacement});
    if (slot < slots_.front() || slots_.back() < slot ||
        !std::binary_search(slots_.begin(), slots_.end(), slot))
      return;
    found_.push_back({address, slot, kind_of(at)});
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

std::optional<ElfAddr> stub_of(const CodeBytes& code, const SlotReference& reference) {
  constexpr std::array<uint8_t, 3> kMoveToR11 = {0x4c, 0x8b, 0x1d};
  constexpr uint64_t kRex = 1;
  if (reference.kind == SlotReference::Kind::jump) return stub_begin(code, reference.address);
  const uint64_t end = reference.address - code.address + kMoveToR11.size() - kRex;
  if (!ends_with(code.bytes, end, kMoveToR11)) return std::nullopt;
  return reference.address - kRex;
}

}  // namespace rtrace::elf
