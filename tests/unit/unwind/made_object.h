// Objects made of call frame information alone, byte by byte.
#pragma once

#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cctype>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "rtrace/elf/elf_file.h"

namespace rtrace::unwind {

// "0c 07 08" in, bytes out; everything from a ';' to the end of the line is comment.
inline std::string bytes(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ';') i = std::min(text.find('\n', i), text.size());
    if (i + 1 >= text.size() || std::isxdigit(static_cast<unsigned char>(text[i])) == 0) continue;
    out += static_cast<char>(std::stoi(std::string(text.substr(i, 2)), nullptr, 16));
    ++i;
  }
  return out;
}

template <typename T>
std::string raw(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

struct MadeFunction {
  uint64_t begin = 0, size = 0;
  std::string program;
};

// What a compiler's common entry says: the CFA is rsp+8, the return address lies below it.
inline const std::string kUsual = bytes("0c 07 08 ; def_cfa rsp, 8\n90 01 ; offset rip, cfa-8");

struct MadeObject {
  enum class Kind : uint8_t { indexed, section, debug_frame };
  Kind kind = Kind::indexed;
  std::string augmentation = "zR";
  std::string program = kUsual;
  std::vector<MadeFunction> functions;

  static constexpr uint64_t kFrames = 0x2000;  // where the section lies

  static std::string record(std::string body) {
    while (body.size() % 8 != 4) body += '\0';  // DW_CFA_nop
    return raw(static_cast<uint32_t>(body.size())) + body;
  }

  // The section, and where each function's entry begins in it.
  std::string frames(std::vector<uint64_t>& offsets) const {
    const bool augmented = !augmentation.empty() && kind != Kind::debug_frame;
    std::string common = raw(kind == Kind::debug_frame ? UINT32_MAX : uint32_t{0});
    common += '\x01' + (augmented ? augmentation : "") + '\0';
    common += bytes("01 78 10");              // code alignment 1, data alignment -8, return address in 16
    if (augmented) common += bytes("01 00");  // one byte: absolute pointers
    std::string section = record(common + program);
    for (const MadeFunction& function : functions) {
      offsets.push_back(section.size());
      const auto id = kind == Kind::debug_frame ? 0 : static_cast<uint32_t>(section.size() + 4);
      section += record(raw(id) + raw(function.begin) + raw(function.size) +
                        (augmented ? std::string(1, '\0') : "") + function.program);
    }
    return section + std::string(4, '\0');
  }

  std::string file_bytes() const {
    std::vector<uint64_t> offsets;
    const std::string section = frames(offsets);
    std::string index = bytes("01 00 03 3b") + raw(kFrames) + raw(static_cast<uint32_t>(functions.size()));
    const uint64_t index_at = kFrames + section.size() + 16;
    for (size_t i = 0; i < functions.size(); ++i)
      index += raw(static_cast<int32_t>(functions[i].begin - index_at)) +
               raw(static_cast<int32_t>(kFrames + offsets[i] - index_at));
    const std::string names = std::string("\0.eh_frame\0.debug_frame\0.shstrtab\0", 34);
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_ident[EI_VERSION] = EV_CURRENT;
    header.e_version = EV_CURRENT;
    header.e_type = ET_DYN;
    header.e_machine = EM_X86_64;
    header.e_ehsize = sizeof header;
    header.e_phoff = sizeof header;
    header.e_phentsize = sizeof(Elf64_Phdr);
    header.e_phnum = 2;
    const uint64_t names_at = index_at + index.size();
    Elf64_Phdr load{PT_LOAD, PF_R | PF_X, 0, 0, 0, names_at, 0x100000, 0x1000};
    Elf64_Phdr frame_index{kind == Kind::indexed ? uint32_t{PT_GNU_EH_FRAME} : uint32_t{PT_NULL},
                           PF_R,
                           index_at,
                           index_at,
                           index_at,
                           index.size(),
                           index.size(),
                           4};
    if (kind != Kind::indexed) {
      header.e_shoff = (names_at + names.size() + 7) / 8 * 8;
      header.e_shentsize = sizeof(Elf64_Shdr);
      header.e_shnum = 3;
      header.e_shstrndx = 2;
    }
    std::string out = raw(header) + raw(load) + raw(frame_index);
    out.resize(kFrames);
    out += section;
    out.resize(index_at);
    out += index + names;
    if (kind == Kind::indexed) return out;
    out.resize(header.e_shoff);
    Elf64_Shdr none{}, described{}, strings{};
    described.sh_name = kind == Kind::section ? 1 : 11;
    described.sh_type = SHT_PROGBITS;
    described.sh_addr = kind == Kind::section ? kFrames : 0;
    described.sh_offset = kFrames;
    described.sh_size = section.size();
    strings.sh_name = 24;
    strings.sh_type = SHT_STRTAB;
    strings.sh_offset = names_at;
    strings.sh_size = names.size();
    return out + raw(none) + raw(described) + raw(strings);
  }

  std::shared_ptr<const elf::ElfFile> file() const { return file_of(file_bytes()); }

  static std::shared_ptr<const elf::ElfFile> file_of(const std::string& content) {
    UniqueFd fd(memfd_create("made", MFD_CLOEXEC));
    if (!fd || ::write(fd.get(), content.data(), content.size()) != static_cast<ssize_t>(content.size()))
      return nullptr;
    return elf::ElfFile::open(std::move(fd), "made-up");
  }
};

}  // namespace rtrace::unwind
