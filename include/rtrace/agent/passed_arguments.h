// What wrappers hand on besides registers.
#pragma once

#include <cstdint>

namespace rtrace::agent {

// What of the arguments lies in memory, behind the return address.
struct Passed {
  uint16_t bytes = 0;  // of those that have names
  // A format tells of more, and is the last of those that have names: bytes of each of its characters, 1 or
  // 4. 0: there is none.
  uint8_t unit : 3 = 0;
  uint8_t scans : 1 = 0;     // what it tells of are pointers
  uint8_t integers : 4 = 0;  // registers that are taken up to the format, which is in the last of them
  uint8_t vectors = 0;
  constexpr bool any() const { return bytes != 0 || unit != 0; }
  // As they travel through a stub.
  constexpr uint32_t bits() const { return __builtin_bit_cast(uint32_t, *this); }
  static constexpr Passed from(uint32_t bits) { return __builtin_bit_cast(Passed, bits); }
  bool operator==(const Passed&) const = default;
};

}  // namespace rtrace::agent
