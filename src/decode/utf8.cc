#include "utf8.h"

#include <algorithm>
#include <cstdint>

namespace rtrace::decode {

namespace {

// 0: no character of more than one byte begins so.
size_t length_by(uint8_t first) {
  return first >= 0xc2 && first < 0xe0   ? 2
         : first >= 0xe0 && first < 0xf0 ? 3
         : first >= 0xf0 && first < 0xf5 ? 4
                                         : 0;
}

}  // namespace

bool is_cut_utf8(std::string_view text) {
  if (text.empty() || text.size() >= length_by(static_cast<uint8_t>(text[0]))) return false;
  return std::all_of(text.begin() + 1, text.end(),
                     [](char c) { return (static_cast<uint8_t>(c) & 0xc0) == 0x80; });
}

size_t printable_utf8(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = text.empty() ? 0 : byte(0);
  const size_t length = length_by(first);
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  uint8_t second = byte(1);
  bool overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  bool surrogate = first == 0xed && second >= 0xa0;
  bool too_large = first == 0xf4 && second >= 0x90;
  bool control = first == 0xc2 && second < 0xa0;
  // U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069, U+FEFF: they turn round what a terminal shows, or are
  // not seen.
  if (length == 3) {
    const uint8_t third = byte(2);
    control |= first == 0xe2 && second == 0x80 &&
               (third == 0x8e || third == 0x8f || (third >= 0xaa && third <= 0xae));
    control |= first == 0xe2 && second == 0x81 && third >= 0xa6 && third <= 0xa9;
    control |= first == 0xef && second == 0xbb && third == 0xbf;
  }
  return overlong || surrogate || too_large || control ? 0 : length;
}

}  // namespace rtrace::decode
