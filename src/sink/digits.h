// Numbers into a line that is built in place.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace rtrace::sink {

inline void append_number(std::string& out, uint64_t value) {
  fmt::format_int digits(value);
  out.append(digits.data(), digits.size());
}

// At least `width` columns, filled on the left.
inline void append_number(std::string& out, uint64_t value, size_t width, char fill) {
  fmt::format_int digits(value);
  if (digits.size() < width) out.append(width - digits.size(), fill);
  out.append(digits.data(), digits.size());
}

// "S.uuuuuu", the seconds in at least `width` columns; what is below a microsecond is dropped, as ltrace and
// strace do.
inline void append_seconds(std::string& out, uint64_t nanoseconds, size_t width = 1) {
  append_number(out, nanoseconds / 1'000'000'000, width, ' ');
  out += '.';
  append_number(out, nanoseconds / 1000 % 1'000'000, 6, '0');
}

}  // namespace rtrace::sink
