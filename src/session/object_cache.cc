#include "object_cache.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <vector>

#include "rtrace/base/error.h"
#include "rtrace/base/log.h"
#include "rtrace/base/text.h"
#include "rtrace/base/unique_fd.h"
#include "rtrace/elf/debug_file.h"

namespace rtrace::session {
namespace {

std::vector<std::byte> read_all(const Memory& memory, VirtAddr address, size_t size) {
  std::vector<std::byte> bytes(size);
  bytes.resize(memory.read(address, bytes));
  return bytes;
}

bool is_there(const elf::ElfFile& file, ElfAddr address, size_t size, LoadBias bias, const Memory& memory) {
  auto wanted = file.bytes_at(address, size);
  auto found = read_all(memory, address + bias, wanted.size());
  return !wanted.empty() && std::equal(wanted.begin(), wanted.end(), found.begin(), found.end());
}

// The same build-id where the file has one, else the same program headers and, unless the program may write
// to it, the same first page.
bool is_in_memory(const elf::ElfFile& file, LoadBias bias, const Memory& memory) {
  if (auto note = file.build_id_note()) {
    auto wanted = file.build_id();
    auto found = read_all(memory, *note + bias, wanted.size());
    return std::equal(wanted.begin(), wanted.end(), found.begin(), found.end());
  }
  constexpr size_t kHeaders = 512, kPage = 4096;
  const elf::Segment& first = file.segments().front();
  return is_there(file, file.program_headers(), kHeaders, bias, memory) &&
         (first.writable || is_there(file, first.memory.begin, kPage, bias, memory));
}

LoadBias bias_with(const elf::ElfFile& file, const ObjectCache::Place& place) {
  if (place.bias) return *place.bias;
  return {place.program_headers.value_or(VirtAddr{}).value - file.program_headers().value};
}

}  // namespace

ObjectCache::OpenFile ObjectCache::open_file(const std::string& path, const std::string& shown) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!fd || fstat(fd.get(), &status) != 0) throw Error::from_errno(errno, "cannot open {}", shown);
  return {std::move(fd),
          {status.st_dev, status.st_ino, status.st_size,
           status.st_mtim.tv_sec * int64_t{1'000'000'000} + status.st_mtim.tv_nsec}};
}

std::shared_ptr<const elf::ElfFile> ObjectCache::open_path(const std::string& path,
                                                           const std::string& shown) {
  OpenFile opened = open_file(path, shown);
  auto& file = files_[opened.key];
  if (file == nullptr) file = elf::ElfFile::open(std::move(opened.fd), shown);
  paths_[file.get()] = {path, opened.key};
  return file;
}

// By the path of the process that mapped it last: a file is not kept open for each object.
UniqueFd ObjectCache::reopen(const elf::ElfFile& file) const {
  auto known = paths_.find(&file);
  if (known == paths_.end()) return {};
  try {
    OpenFile opened = open_file(known->second.first, file.path());
    if (opened.key == known->second.second) return std::move(opened.fd);
  } catch (const Error& error) {
    RTRACE_LOG(session, 1, "{}", error.what());
  }
  return {};
}

const ObjectCache::DebugInfo& ObjectCache::debug_info(const std::shared_ptr<const elf::ElfFile>& file,
                                                      Servers servers) {
  auto [known, fresh] = debug_info_.try_emplace(file);
  if (!fresh) return known->second;
  DebugInfo& found = known->second;
  found.debug = dwarf::DebugInfo::of(*file, file->has_debug_info() ? reopen(*file) : UniqueFd());
  if (found.debug != nullptr) return found;
  std::string name;
  append_printable(name, basename_of(file->path()), false);
  found.reason = name + " has no debug info";
  if (servers == Servers::may_be_asked) ask_servers(*file, found);
  return found;
}

void ObjectCache::ask_servers(const elf::ElfFile& file, DebugInfo& known) {
  const Debuginfod::Answer answer = debuginfod_.ask(file.build_id());
  if (!answer.reason.empty()) known.reason += ", and " + answer.reason;
  if (answer.path.empty()) return;
  UniqueFd fd(::open(answer.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  const bool is_its = fd && elf::has_build_id(fd.get(), file.build_id());
  auto debug = is_its ? dwarf::DebugInfo::open(std::move(fd), answer.path) : nullptr;
  if (debug == nullptr) {
    known.reason += ", and what debuginfod gave is not its debug file";
    return;
  }
  known = {std::move(debug), {}};
}

ObjectCache::Opened ObjectCache::open(pid_t pid, const Place& place, const Memory& memory) {
  const tracee::MapsEntry& entry = place.begin;
  std::vector<std::string> candidates;
  if (place.program_headers) candidates.push_back(fmt::format("/proc/{}/exe", pid));
  // maps shows paths as they are from our own root, or, from another mount namespace, from its root.
  if (!entry.deleted) {
    candidates.push_back(fmt::format("/proc/{}/root{}", pid, entry.path));
    candidates.push_back(entry.path);
  }
  candidates.push_back(
      fmt::format("/proc/{}/map_files/{:x}-{:x}", pid, entry.range.begin.value, entry.range.end.value));
  std::string why = entry.deleted ? "its file was deleted" : "";
  for (const std::string& path : candidates) {
    try {
      auto file = open_path(path, entry.path);
      const LoadBias at = bias_with(*file, place);
      if (is_in_memory(*file, at, memory)) return {std::move(file), at, {}};
      why = "its path leads to another file, so it was replaced";
    } catch (const Error& error) {
      RTRACE_LOG(session, 1, "{}: {}", path, error.what());
      if (why.empty()) why = error.what();
    }
  }
  auto mapped = elf::ElfFile::from_memory(memory, entry.range.begin, entry.path);
  if (bias_with(*mapped.file, place) != mapped.bias)
    throw Error::make("{}; what is mapped at {} is not its beginning", why, entry.range.begin);
  return {std::move(mapped.file), mapped.bias, std::move(why)};
}

std::vector<std::string> ObjectCache::take_warnings(const std::shared_ptr<const elf::ElfFile>& file) {
  const std::vector<std::string>& all = file->warnings();
  // Of memory only some of a file is to be had.
  if (all.empty() || file->is_from_memory()) return {};
  const size_t taken = std::exchange(warnings_taken_[file], all.size());
  return {all.begin() + static_cast<ptrdiff_t>(taken), all.end()};
}

}  // namespace rtrace::session
