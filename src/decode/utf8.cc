#include "utf8.h"

#include <algorithm>
#include <cstdint>

namespace rtrace::decode {

bool is_cut_utf8(std::string_view text) {
  if (text.empty()) return false;
  const auto first = static_cast<uint8_t>(text[0]);
  const size_t length = first < 0xc2 || first > 0xf4 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  return text.size() < length && std::all_of(text.begin() + 1, text.end(),
                                             [](char c) { return (static_cast<uint8_t>(c) & 0xc0) == 0x80; });
}

}  // namespace rtrace::decode
