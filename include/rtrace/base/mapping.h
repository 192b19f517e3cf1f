#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace rtrace {

// A mapping of our own address space, unmapped when its owner goes.
class Mapping {
 public:
  Mapping() = default;
  // The whole file, read-only and private. An empty file gives an empty mapping. Throws Error.
  // A file that is truncated while mapped raises SIGBUS on access (mmap(2)); callers that read files which
  // others may change copy them first.
  static Mapping of_file(int fd);
  // Zeroed memory that this process and the children it forks share. Pages cost nothing until touched.
  static Mapping shared(size_t size);

  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  Mapping(std::byte* data, size_t size) : data_(data), size_(size) {}
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Makes pages of our own memory that are about to be touched present by one system call, where each would
// cost a fault: of a file one for 64 KiB, of other memory one for 4 KiB. To write means as if written to; the
// contents stay. Memory that cannot be touched ends it and is passed over in silence, as is all of it before
// Linux 5.14 (madvise(2), MADV_POPULATE_READ and _WRITE).
enum class Access : uint8_t { read, write };
void populate(std::span<const std::byte> memory, Access access);

}  // namespace rtrace
