// The contents of the stack right above a return address, hashed by parts: by rtrace for a thread that
// stands, by the recorder for one that runs. A call's frame may be compared with one that the other of them
// has seen.
#pragma once

#include <cstdint>

namespace rtrace::agent {

inline constexpr uint64_t kCallerBytes = 1024, kCallerParts = 8;
inline constexpr uint64_t kCallerPartWords = kCallerBytes / kCallerParts / sizeof(uint64_t);

// A polynomial in an odd constant (2^64 divided by the golden ratio), for whole hashes that are compared: two
// instructions a word.
constexpr uint64_t with_word(uint64_t hash, uint64_t word) {
  return hash * 0x9e3779b97f4a7c15U + word;
}

}  // namespace rtrace::agent
