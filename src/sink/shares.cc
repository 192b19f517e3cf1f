#include "shares.h"

#include <algorithm>

namespace rtrace::sink {

size_t fair_share(std::vector<size_t> lengths, size_t room) {
  std::sort(lengths.begin(), lengths.end());
  size_t left = lengths.size();
  for (const size_t length : lengths) {
    const size_t share = room / left;
    if (length > share) return share;
    room -= length;
    --left;
  }
  return lengths.empty() ? 0 : lengths.back();
}

}  // namespace rtrace::sink
