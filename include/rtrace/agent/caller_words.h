// The contents of the stack right above a return address, hashed by parts: by rtrace for a thread that
// stands, by the recorder for one that runs. A call's frame may be compared with one that the other of them
// has seen.
#pragma once

#include <cstdint>

namespace rtrace::agent {

inline constexpr uint64_t kCallerBytes = 1024, kCallerParts = 8;
inline constexpr uint64_t kCallerPartWords = kCallerBytes / kCallerParts / sizeof(uint64_t);

// Of a part: the sum of its words and the sum of the sums so far, which tells their order. Two additions a
// word, where a multiplication takes as long as a handful.
struct WordSums {
  uint64_t words = 0, sums = 0;
  constexpr void add(uint64_t word) {
    words += word;
    sums += words;
  }
  // By an odd constant (2^64 divided by the golden ratio). 0 of no words.
  constexpr uint64_t hash() const { return sums * 0x9e3779b97f4a7c15U + words; }
};

}  // namespace rtrace::agent
