// Where decoders get bytes from. A stopped tracee, an agent's record and a test's buffer all look like this.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "rtrace/base/address.h"

namespace rtrace {

class Memory {
 public:
  virtual ~Memory() = default;

  // Copies the bytes at `address` into `out` and says how many could be read, from the front. A short read is
  // normal (an unmapped page, a dead tracee) and no error.
  virtual size_t read(VirtAddr address, std::span<std::byte> out) const = 0;

  // One piece of a gathered read. `got` says how many bytes came, from the front.
  struct Piece {
    VirtAddr address;
    std::byte* out = nullptr;
    size_t size = 0;
    size_t got = 0;
  };
  // Each as read() would; where reads cost a system call, as few of these as possible.
  virtual void read_gathered(std::span<Piece> pieces) const;

  template <typename T>
  std::optional<T> read_value(VirtAddr address) const {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    if (read(address, std::as_writable_bytes(std::span(&value, 1))) != sizeof(T)) return std::nullopt;
    return value;
  }

  // The bytes up to a NUL, which is not included, `limit` bytes, or the first that cannot be read. nullopt
  // where not even one byte can be read; `terminated` tells whether the NUL was found.
  struct CString {
    std::string text;
    bool terminated = false;
  };
  std::optional<CString> read_c_string(VirtAddr address, size_t limit) const;
};

// Memory made of pieces, for tests and for captured bytes.
class BufferMemory : public Memory {
 public:
  void add(VirtAddr address, std::span<const std::byte> bytes);
  void add(VirtAddr address, std::string_view bytes);
  template <typename T>
  void add_value(VirtAddr address, const T& value) {
    add(address, std::as_bytes(std::span(&value, 1)));
  }
  size_t read(VirtAddr address, std::span<std::byte> out) const override;

 private:
  std::map<VirtAddr, std::vector<std::byte>> pieces_;
};

}  // namespace rtrace
