#include "utf8.h"

#include <algorithm>
#include <cstdint>

namespace rtrace::decode {

size_t printable_utf8(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  uint8_t first = text.empty() ? 0 : byte(0);
  size_t length = first >= 0xc2 && first < 0xe0   ? 2
                  : first >= 0xe0 && first < 0xf0 ? 3
                  : first >= 0xf0 && first < 0xf5 ? 4
                                                  : 0;
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  uint8_t second = byte(1);
  bool overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  bool surrogate = first == 0xed && second >= 0xa0;
  bool too_large = first == 0xf4 && second >= 0x90;
  bool control = first == 0xc2 && second < 0xa0;
  return overlong || surrogate || too_large || control ? 0 : length;
}

}  // namespace rtrace::decode
