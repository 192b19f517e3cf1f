// Shared by the tests of elf: where the fixtures are, and small questions to them.
#pragma once

#include <elf.h>
#include <gmock/gmock.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "rtrace/base/error.h"
#include "rtrace/elf/elf_file.h"

namespace rtrace::elf {

inline std::string fixture(const std::string& name) {
  return std::string(RTRACE_ELF_FIXTURES "/") + name;
}
inline std::shared_ptr<const ElfFile> open_fixture(const std::string& name) {
  return ElfFile::open(fixture(name));
}

inline std::string read_whole(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline const CallSlot* slot_of(const ElfFile& file, std::string_view name) {
  const auto& slots = file.call_slots();
  auto found =
      std::find_if(slots.begin(), slots.end(), [&](const CallSlot& slot) { return slot.name == name; });
  return found == slots.end() ? nullptr : &*found;
}

// A file made of these bytes; nullptr where open() refuses them.
inline std::shared_ptr<const ElfFile> open_bytes(std::string_view bytes) {
  UniqueFd fd(memfd_create("fixture", MFD_CLOEXEC));
  if (!fd || ::write(fd.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
    return nullptr;
  try {
    return ElfFile::open(std::move(fd), "made-up");
  } catch (const Error&) {
    return nullptr;
  }
}

// The file without its section headers, as sstrip leaves it.
inline std::shared_ptr<const ElfFile> open_without_sections(const std::string& path) {
  std::string bytes = read_whole(path);
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof header);
  header.e_shoff = 0;
  header.e_shnum = header.e_shstrndx = 0;
  std::memcpy(bytes.data(), &header, sizeof header);
  return open_bytes(bytes);
}

// The slot that the first `jmp *disp32(%rip)` within a stub's 16 bytes reads, worked out here from the bytes
// alone.
inline ElfAddr slot_read_by_stub(const ElfFile& file, ElfAddr stub) {
  auto bytes = file.bytes_at(stub, 16);
  for (size_t i = 0; i + 6 <= bytes.size(); ++i) {
    if (bytes[i] != std::byte{0xff} || bytes[i + 1] != std::byte{0x25}) continue;
    uint32_t low = 0;
    for (size_t k = 0; k < 4; ++k) low |= static_cast<uint32_t>(bytes[i + 2 + k]) << (8 * k);
    return stub + i + 6 + static_cast<uint64_t>(int64_t{static_cast<int32_t>(low)});
  }
  return {};
}

}  // namespace rtrace::elf
