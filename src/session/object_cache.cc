#include "object_cache.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <vector>

#include "rtrace/base/error.h"
#include "rtrace/base/log.h"
#include "rtrace/base/unique_fd.h"

namespace rtrace::session {
namespace {

std::vector<std::byte> read_all(const Memory& memory, VirtAddr address, size_t size) {
  std::vector<std::byte> bytes(size);
  bytes.resize(memory.read(address, bytes));
  return bytes;
}

// The same build-id where the file has one, else the same ELF header and program headers.
bool is_in_memory(const elf::ElfFile& file, LoadBias bias, const Memory& memory) {
  if (auto note = file.build_id_note()) {
    auto wanted = file.build_id();
    auto found = read_all(memory, *note + bias, wanted.size());
    return std::equal(wanted.begin(), wanted.end(), found.begin(), found.end());
  }
  constexpr size_t kHeaders = 512;
  const ElfAddr headers = file.program_headers();
  auto wanted = file.bytes_at(headers, kHeaders);
  auto found = read_all(memory, headers + bias, wanted.size());
  return !wanted.empty() && std::equal(wanted.begin(), wanted.end(), found.begin(), found.end());
}

}  // namespace

std::shared_ptr<const elf::ElfFile> ObjectCache::open_path(const std::string& path,
                                                           const std::string& shown) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!fd || fstat(fd.get(), &status) != 0) throw Error::from_errno(errno, "cannot open {}", shown);
  const Key key{status.st_dev, status.st_ino, status.st_size,
                status.st_mtim.tv_sec * int64_t{1'000'000'000} + status.st_mtim.tv_nsec};
  auto known = files_.find(key);
  if (known != files_.end()) return known->second;
  auto file = elf::ElfFile::open(std::move(fd), shown);
  files_.emplace(key, file);
  return file;
}

std::shared_ptr<const elf::ElfFile> ObjectCache::open(pid_t pid, const tracee::MapsEntry& entry,
                                                      LoadBias bias, const Memory& memory,
                                                      bool main_program) {
  std::vector<std::string> candidates;
  if (main_program) candidates.push_back(fmt::format("/proc/{}/exe", pid));
  if (!entry.deleted) candidates.push_back(fmt::format("/proc/{}/root{}", pid, entry.path));
  candidates.push_back(
      fmt::format("/proc/{}/map_files/{:x}-{:x}", pid, entry.range.begin.value, entry.range.end.value));
  std::string why;
  for (const std::string& path : candidates) {
    try {
      auto file = open_path(path, entry.path);
      if (is_in_memory(*file, bias, memory)) return file;
      why = fmt::format("{} is not the file that is mapped (replaced since?)", entry.path);
    } catch (const Error& error) {
      RTRACE_LOG(session, 1, "{}: {}", path, error.what());
      if (why.empty()) why = error.what();
    }
  }
  throw Error(why);
}

}  // namespace rtrace::session
