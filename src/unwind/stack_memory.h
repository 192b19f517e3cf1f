// A thread's stack, read in large pieces: frames lie side by side, and each read of another process costs a
// system call.
#pragma once

#include <array>
#include <vector>

#include "rtrace/base/memory.h"

namespace rtrace::unwind {

class StackMemory : public Memory {
 public:
  explicit StackMemory(const Memory& below) : below_(below) {}
  size_t read(VirtAddr address, std::span<std::byte> out) const override;

 private:
  static constexpr size_t kPiece = 16384;
  static constexpr size_t kBefore = 512;
  struct Piece {
    VirtAddr address;
    std::vector<std::byte> bytes;
    void fill(const Memory& memory, VirtAddr from);
    bool holds(VirtAddr wanted, size_t size) const {
      return address <= wanted && size <= bytes.size() && wanted - address <= bytes.size() - size;
    }
  };

  const Memory& below_;
  // A signal handler's stack and the one that it interrupted, at least.
  mutable std::array<Piece, 4> pieces_;
  mutable size_t next_ = 0;
};

}  // namespace rtrace::unwind
