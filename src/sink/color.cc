#include "color.h"

#include <algorithm>

namespace rtrace::sink {
namespace {

// Where a part that begins with this sign at `begin` ends: behind its closing sign, or at the end of the
// text.
size_t end_of_part(std::string_view text, size_t begin, char close) {
  for (size_t i = begin + 1; i < text.size(); ++i) {
    if (text[i] == '\\')
      ++i;
    else if (text[i] == close)
      return i + 1;
  }
  return text.size();
}

}  // namespace

size_t columns(std::string_view text) {
  size_t count = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b')
      i = std::min(text.find('m', i), text.size());
    else
      count += (text[i] & 0xc0) != 0x80 ? 1 : 0;
  }
  return count;
}

void color_strings(std::string& out, size_t start) {
  const std::string text = out.substr(start);
  out.resize(start);
  for (size_t i = 0; i < text.size();) {
    // A quote inside of these is no string's: a character, and the file behind a descriptor.
    const char close = text[i] == '<' ? '>' : text[i];
    if (close != '"' && close != '\'' && close != '>') {
      out += text[i++];
      continue;
    }
    const size_t end = text[i] == '>' ? i + 1 : end_of_part(text, i, close);
    const bool colored = close != '>';
    if (colored) out += kStringColor;
    out.append(text, i, end - i);
    if (colored) out += kPlain;
    i = end;
  }
}

}  // namespace rtrace::sink
