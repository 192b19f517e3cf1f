// Where distributions put the symbols that they strip: GDB manual, "Debugging Information in Separate Files".
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rtrace::elf {

// .gnu_debuglink: a file name, and the CRC-32 of that file's bytes.
struct DebugLink {
  std::string_view name;
  uint32_t crc = 0;
};

// Whether the file is an ELF file with that build-id.
bool has_build_id(int fd, std::span<const std::byte> build_id);

// The build-id's place below `debug_root` (/usr/lib/debug); empty for an id too short to have one.
std::string debug_path_of_build_id(std::span<const std::byte> build_id, std::string_view debug_root);

// Beside the object, in its .debug folder, and below `debug_root` at the object's own path.
std::vector<std::string> debug_paths_of_link(std::string_view object_path, const DebugLink& link,
                                             std::string_view debug_root);

// The CRC that .gnu_debuglink uses: that of zlib and Ethernet.
uint32_t debug_link_crc(std::span<const std::byte> bytes);

}  // namespace rtrace::elf
