// The bytes of one ELF file and the three ways to find something in them: by file offset, by address, by
// section.
#pragma once

#include <elf.h>

#include <algorithm>
#include <cstddef>
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
  Elf64_Shdr header;
  StringTable names;
  std::string_view name() const { return names.at(header.sh_name); }
  ElfRange memory() const { return {{header.sh_addr}, {header.sh_addr + header.sh_size}}; }
  bool executable() const { return header.sh_type == SHT_PROGBITS && (header.sh_flags & SHF_EXECINSTR) != 0; }
};

// The section headers, each read and named when it is looked at: of most files one or two are.
class Sections {
 public:
  Sections() = default;
  Sections(Table<Elf64_Shdr> headers, StringTable names) : headers_(headers), names_(names) {}

  class Iterator {
   public:
    using value_type = Section;
    using difference_type = std::ptrdiff_t;
    Iterator() = default;
    Iterator(const Sections& sections, size_t index) : sections_(&sections), index_(index) {}
    Section operator*() const { return (*sections_)[index_]; }
    Iterator& operator++() {
      ++index_;
      return *this;
    }
    Iterator operator++(int) { return {*sections_, index_++}; }
    bool operator==(const Iterator&) const = default;

   private:
    const Sections* sections_ = nullptr;
    size_t index_ = 0;
  };

  size_t size() const { return headers_.size(); }
  bool empty() const { return size() == 0; }
  Section operator[](size_t index) const { return {headers_[index], names_}; }
  Iterator begin() const { return {*this, 0}; }
  Iterator end() const { return {*this, size()}; }

 private:
  Table<Elf64_Shdr> headers_;
  StringTable names_;
};

// A piece of code with the address where it is mapped.
struct CodeBytes {
  ElfAddr address;
  Bytes bytes;
};

// Of most objects all that is read is their beginning, the tables that stand before the code: it is brought
// in.
Mapping begun(Mapping file);

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
  const Sections& sections() const;
  std::optional<Section> section(std::string_view name) const;
  std::optional<Section> section_of_type(uint32_t type) const;
  // The first that is allocated and holds the address.
  std::optional<Section> section_of(ElfAddr address) const;
  Bytes contents(const Section& section) const;

  struct BuildId {
    Bytes bytes;
    FileOffset offset;
  };
  const std::optional<BuildId>& build_id() const;

  // Each once.
  void warn(std::string text) const {
    if (std::ranges::find(warnings_, text) == warnings_.end()) warnings_.push_back(std::move(text));
  }
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  void read_header();
  void read_program_headers();
  void add_segment(const Elf64_Phdr& header);
  Sections read_sections() const;
  std::optional<BuildId> build_id_in(uint64_t offset, uint64_t size, uint64_t alignment) const;
  std::optional<BuildId> read_build_id() const;

  Mapping mapping_;
  Elf64_Ehdr header_{};
  std::vector<Elf64_Phdr> program_headers_;
  std::vector<Segment> segments_;
  mutable std::optional<Sections> sections_;
  mutable std::optional<std::optional<BuildId>> build_id_;
  mutable std::vector<std::string> warnings_;
};

}  // namespace rtrace::elf
