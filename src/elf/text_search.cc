#include "text_search.h"

#include <emmintrin.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>

namespace rtrace::elf {
namespace {

constexpr size_t kVector = 16, kStep = 4 * kVector;

class TextSearch {
 public:
  TextSearch(std::string_view text, std::string_view name)
      : text_(text),
        name_(name),
        first_(_mm_set1_epi8(name.front())),
        last_(_mm_set1_epi8(name.back())),
        // Places at which the whole name has room.
        end_(std::min(text.size() - name.size(), size_t{UINT32_MAX}) + 1) {}

  std::vector<uint32_t> run() {
    size_t at = 0;
    for (; at + kStep <= end_; at += kStep) {
      const __m128i ends[] = {ends_at(at), ends_at(at + kVector), ends_at(at + 2 * kVector),
                              ends_at(at + 3 * kVector)};
      const __m128i any = _mm_or_si128(_mm_or_si128(ends[0], ends[1]), _mm_or_si128(ends[2], ends[3]));
      if (_mm_movemask_epi8(any) == 0) continue;
      uint64_t places = 0;
      for (size_t i = 0; i < std::size(ends); ++i)
        places |= uint64_t{static_cast<uint16_t>(_mm_movemask_epi8(ends[i]))} << i * kVector;
      for (; places != 0; places &= places - 1) take(at + static_cast<size_t>(std::countr_zero(places)));
    }
    for (; at < end_; ++at) take(at);
    return std::move(found_);
  }

 private:
  // Of the 16 places from there on, those that have the name's first byte, and its last where that would be.
  __m128i ends_at(size_t at) const {
    const auto load = [this](size_t from) {
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(text_.data() + from));
    };
    return _mm_and_si128(_mm_cmpeq_epi8(load(at), first_),
                         _mm_cmpeq_epi8(load(at + name_.size() - 1), last_));
  }
  void take(size_t at) {
    if (std::memcmp(text_.data() + at, name_.data(), name_.size()) == 0)
      found_.push_back(static_cast<uint32_t>(at));
  }

  std::string_view text_, name_;
  __m128i first_, last_;
  size_t end_;
  std::vector<uint32_t> found_;
};

}  // namespace

std::vector<uint32_t> find_places(std::string_view text, std::string_view name) {
  if (name.empty() || name.size() > text.size()) return {};
  return TextSearch(text, name).run();
}

}  // namespace rtrace::elf
