#include "rtrace/base/mapping.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "rtrace/base/error.h"

namespace rtrace {

Mapping Mapping::of_file(int fd) {
  struct stat status {};
  if (fstat(fd, &status) != 0) throw Error::from_errno(errno, "fstat");
  if (!S_ISREG(status.st_mode)) throw Error("not a regular file");
  if (status.st_size == 0) return {};
  auto size = static_cast<size_t>(status.st_size);
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (data == MAP_FAILED) throw Error::from_errno(errno, "mmap of {} bytes", size);
  return {static_cast<std::byte*>(data), size};
}

Mapping Mapping::shared(size_t size) {
  void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) throw Error::from_errno(errno, "mmap of {} shared bytes", size);
  return {static_cast<std::byte*>(data), size};
}

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Mapping::~Mapping() {
  if (data_ != nullptr) munmap(data_, size_);
}

void populate(std::span<const std::byte> memory, Access access) {
  constexpr uintptr_t kPage = 4096;
  if (memory.empty()) return;
  const auto address = reinterpret_cast<uintptr_t>(memory.data());
  const uintptr_t begin = address / kPage * kPage;
  (void)madvise(reinterpret_cast<void*>(begin), address + memory.size() - begin,
                access == Access::read ? MADV_POPULATE_READ : MADV_POPULATE_WRITE);
}

}  // namespace rtrace
