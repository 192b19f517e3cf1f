#include "rtrace/elf/debug_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <optional>

#include "debug_file.h"
#include "rtrace/base/error.h"

namespace rtrace::elf {
namespace {

constexpr std::string_view kDebugRoot = "/usr/lib/debug";

constexpr std::array<uint32_t, 256> crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value & 1) != 0 ? 0xedb88320 ^ (value >> 1) : value >> 1;
    table[byte] = value;
  }
  return table;
}

std::optional<DebugLink> debug_link_of(const Image& image) {
  const auto section = image.section(".gnu_debuglink");
  if (!section) return std::nullopt;
  Bytes bytes = image.contents(*section);
  std::string_view name = StringTable(bytes).at(0);
  auto crc = load<uint32_t>(bytes, (name.size() + 4) & ~size_t{3});  // behind the NUL, 4-byte aligned
  // A name only: what comes from the object must not lead elsewhere.
  if (!crc || name.empty() || name.find('/') != std::string_view::npos) return std::nullopt;
  return DebugLink{name, *crc};
}

DebugFile open_file(std::string path) {
  // O_NONBLOCK: a FIFO in that place must not make us wait.
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return {};
  try {
    auto image = std::make_unique<Image>(Mapping::of_file(fd.get()));
    return {std::move(image), std::move(fd), std::move(path)};
  } catch (const Error&) {
    return {};
  }
}

// Asked once a second for each: of many objects most lie in few folders, and most have none for debug files.
bool is_folder(const std::string& path) {
  using Clock = std::chrono::steady_clock;
  struct Known {
    Clock::time_point until;
    bool folder = false;
  };
  thread_local std::map<std::string, Known> all;
  Known& known = all[path];
  const auto now = Clock::now();
  if (now < known.until) return known.folder;
  struct stat status {};
  known = {now + std::chrono::seconds(1), stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode)};
  return known.folder;
}

bool same_build_id(const Image& a, const Image& b) {
  return a.build_id() && b.build_id() && std::ranges::equal(a.build_id()->bytes, b.build_id()->bytes);
}

bool belongs_to(const Image& debug, const Image& object, const DebugLink& link) {
  if (debug.build_id() && object.build_id()) return same_build_id(debug, object);
  return debug_link_crc(debug.file()) == link.crc;
}

}  // namespace

uint32_t debug_link_crc(std::span<const std::byte> bytes) {
  static constexpr std::array<uint32_t, 256> kTable = crc_table();
  uint32_t crc = UINT32_MAX;
  for (std::byte byte : bytes) crc = kTable[(crc ^ static_cast<uint32_t>(byte)) & 0xff] ^ (crc >> 8);
  return ~crc;
}

std::string debug_path_of_build_id(std::span<const std::byte> build_id, std::string_view debug_root) {
  if (build_id.size() < 2) return {};
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string path = fmt::format("{}/.build-id/", debug_root);
  for (size_t i = 0; i < build_id.size(); ++i) {
    const auto byte = static_cast<unsigned>(build_id[i]);
    if (i == 1) path += '/';
    (path += kDigits[byte >> 4]) += kDigits[byte & 0xf];
  }
  return path + ".debug";
}

std::vector<std::string> debug_paths_of_link(std::string_view object_path, const DebugLink& link,
                                             std::string_view debug_root) {
  size_t slash = object_path.rfind('/');
  std::string folder(slash == std::string_view::npos ? std::string_view(".") : object_path.substr(0, slash));
  std::vector<std::string> paths = {fmt::format("{}/{}", folder, link.name),
                                    fmt::format("{}/.debug/{}", folder, link.name)};
  if (slash != std::string_view::npos) paths.push_back(fmt::format("{}{}/{}", debug_root, folder, link.name));
  return paths;
}

bool has_build_id(int fd, std::span<const std::byte> build_id) try {
  const Image image(Mapping::of_file(fd));
  return image.build_id() && std::ranges::equal(image.build_id()->bytes, build_id);
} catch (const Error&) {
  return false;
}

DebugFile find_debug_file(const Image& object, const std::string& path) {
  if (object.build_id() && object.build_id()->bytes.size() <= 64) {
    auto debug = open_file(debug_path_of_build_id(object.build_id()->bytes, kDebugRoot));
    if (debug.image && same_build_id(*debug.image, object)) return debug;
  }
  auto link = debug_link_of(object);
  if (!link) return {};
  for (const std::string& candidate : debug_paths_of_link(path, *link, kDebugRoot)) {
    if (!is_folder(candidate.substr(0, candidate.rfind('/')))) continue;
    auto debug = open_file(candidate);
    if (debug.image && belongs_to(*debug.image, object, *link)) return debug;
  }
  return {};
}

}  // namespace rtrace::elf
