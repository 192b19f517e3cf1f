// The bytes of one ELF file and the three ways to find something in them: by file offset, by address, by
// section.
#pragma once

#include <elf.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bytes.h"
#include "rtrace/base/address.h"
#include "rtrace/base/mapping.h"
#include "rtrace/elf/elf_file.h"

namespace rtrace::elf {

struct Section {
  std::string_view name;
  Elf64_Shdr header;
  ElfRange memory() const { return {{header.sh_addr}, {header.sh_addr + header.sh_size}}; }
  bool executable() const { return header.sh_type == SHT_PROGBITS && (header.sh_flags & SHF_EXECINSTR) != 0; }
};

// A piece of code with the address where it is mapped.
struct CodeBytes {
  ElfAddr address;
  Bytes bytes;
};

class Image {
 public:
  // Throws Error where the file header or the program headers cannot be used. Everything behind them is
  // checked where it is read.
  explicit Image(Mapping mapping);

  Bytes file() const { return mapping_.bytes(); }
  const Elf64_Ehdr& header() const { return header_; }
  const std::vector<Elf64_Phdr>& program_headers() const { return program_headers_; }
  const Elf64_Phdr* program_header(uint32_t type) const;
  // PT_LOADs by address, cut to what the file holds.
  const std::vector<Segment>& segments() const { return segments_; }
  const Segment* segment_of(ElfAddr address) const;
  bool executable(ElfAddr address) const;

  // The file's bytes at an address, to the end of the file's part of the segment or `size`, whichever comes
  // first.
  Bytes at(ElfAddr address, uint64_t size = UINT64_MAX) const;

  // Empty where the section headers are missing or broken: such objects still run.
  const std::vector<Section>& sections() const;
  const Section* section(std::string_view name) const;
  const Section* section_of_type(uint32_t type) const;
  const Section* section_of(ElfAddr address) const;
  Bytes contents(const Section& section) const;

  struct BuildId {
    Bytes bytes;
    FileOffset offset;
  };
  const std::optional<BuildId>& build_id() const;

  void warn(std::string text) const { warnings_.push_back(std::move(text)); }
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  void read_header();
  void read_program_headers();
  void add_segment(const Elf64_Phdr& header);
  std::vector<Section> read_sections() const;
  std::optional<BuildId> build_id_in(uint64_t offset, uint64_t size, uint64_t alignment) const;
  std::optional<BuildId> read_build_id() const;

  Mapping mapping_;
  Elf64_Ehdr header_{};
  std::vector<Elf64_Phdr> program_headers_;
  std::vector<Segment> segments_;
  mutable std::optional<std::vector<Section>> sections_;
  mutable std::optional<std::optional<BuildId>> build_id_;
  mutable std::vector<std::string> warnings_;
};

}  // namespace rtrace::elf
