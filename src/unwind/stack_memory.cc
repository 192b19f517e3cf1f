#include "stack_memory.h"

#include <algorithm>
#include <cstring>

namespace rtrace::unwind {

void StackMemory::Piece::fill(const Memory& memory, VirtAddr from) {
  address = from;
  bytes.resize(kPiece);
  bytes.resize(memory.read(from, bytes));
}

size_t StackMemory::read(VirtAddr address, std::span<std::byte> out) const {
  if (out.size() > kBefore) return below_.read(address, out);
  for (const Piece& piece : pieces_) {
    if (!piece.holds(address, out.size())) continue;
    std::memcpy(out.data(), piece.bytes.data() + (address - piece.address), out.size());
    return out.size();
  }
  Piece& piece = pieces_[next_];
  next_ = (next_ + 1) % pieces_.size();
  // Registers of one frame are saved downwards. The first piece begins where the stack does.
  const uint64_t before = piece.bytes.empty() ? 0 : std::min<uint64_t>(kBefore, address.value);
  piece.fill(below_, address - before);
  if (!piece.holds(address, out.size())) piece.fill(below_, address);
  const size_t skipped = address - piece.address;
  const size_t got = std::min(out.size(), piece.bytes.size() - std::min(skipped, piece.bytes.size()));
  if (got > 0) std::memcpy(out.data(), piece.bytes.data() + skipped, got);
  return got;
}

}  // namespace rtrace::unwind
