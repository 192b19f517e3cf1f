// Bounds-checked views of a file's bytes. The tables of an x86-64 object have this machine's byte order and
// layout (ELFDATA2LSB, ELFCLASS64), so reading one is a memcpy; what needs care is only where the bytes end.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

namespace rtrace::elf {

using Bytes = std::span<const std::byte>;

// The part [offset, offset + size) as far as there are bytes for it.
inline Bytes clamped(Bytes bytes, uint64_t offset, uint64_t size = UINT64_MAX) {
  if (offset >= bytes.size()) return {};
  return bytes.subspan(static_cast<size_t>(offset),
                       static_cast<size_t>(std::min<uint64_t>(size, bytes.size() - offset)));
}

// The same part, or nothing if it does not lie wholly inside.
inline Bytes exactly(Bytes bytes, uint64_t offset, uint64_t size) {
  Bytes part = clamped(bytes, offset, size);
  return part.size() == size ? part : Bytes{};
}

// Nothing in a mapped file is aligned for sure.
template <typename T>
std::optional<T> load(Bytes bytes, uint64_t offset = 0) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return std::nullopt;
  T value{};
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

template <typename T>
class Table {
 public:
  Table() = default;
  explicit Table(Bytes bytes) : bytes_(bytes) {}
  size_t size() const { return bytes_.size() / sizeof(T); }
  Bytes bytes() const { return bytes_; }
  T operator[](size_t index) const {
    T value{};
    std::memcpy(&value, bytes_.data() + index * sizeof(T), sizeof(T));
    return value;
  }
  // One member, which lies at `offset` in it.
  template <typename Member>
  Member member(size_t index, size_t offset) const {
    Member value{};
    std::memcpy(&value, bytes_.data() + index * sizeof(T) + offset, sizeof value);
    return value;
  }
  std::optional<T> at(uint64_t index) const {
    if (index >= size()) return std::nullopt;
    return (*this)[static_cast<size_t>(index)];
  }

 private:
  Bytes bytes_;
};

class StringTable {
 public:
  // Longer than any mangled name in practice; keeps a table of pointers into one endless string from costing
  // more than linear time.
  static constexpr size_t kMaxLength = 16384;

  StringTable() = default;
  explicit StringTable(Bytes bytes) : text_(reinterpret_cast<const char*>(bytes.data()), bytes.size()) {}
  std::string_view text() const { return text_; }
  // Empty where the offset is outside or the string does not end.
  std::string_view at(uint64_t offset) const {
    if (offset >= text_.size()) return {};
    std::string_view rest = text_.substr(static_cast<size_t>(offset), kMaxLength + 1);
    size_t length = rest.find('\0');
    return length == std::string_view::npos ? std::string_view{} : rest.substr(0, length);
  }

 private:
  std::string_view text_;
};

}  // namespace rtrace::elf
