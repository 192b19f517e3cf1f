// What the dynamic linker sees of an object: PT_DYNAMIC and the tables it points at. None of it needs section
// headers.
#pragma once

#include <elf.h>

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "bytes.h"
#include "image.h"

namespace rtrace::elf {

// The dynamic section by tag; of a tag given twice the last counts, as in the dynamic linker.
class Dynamic {
 public:
  explicit Dynamic(const Image& image);

  bool present() const { return present_; }
  uint64_t value(int64_t tag) const;  // 0 where absent
  // The table that starts at the address in `tag`, with `size` bytes at most.
  Bytes table(int64_t tag, uint64_t size = UINT64_MAX) const;
  const StringTable& strings() const { return strings_; }
  std::string_view soname() const { return soname_; }
  const std::vector<std::string_view>& needed() const { return needed_; }

 private:
  const Image& image_;
  bool present_ = false;
  std::vector<Elf64_Dyn> entries_;
  StringTable strings_;
  std::string_view soname_;
  std::vector<std::string_view> needed_;
};

// Symbol versions: .gnu.version indexes into what .gnu.version_d and .gnu.version_r define (Drepper, "ELF
// Symbol Versioning").
class Versions {
 public:
  explicit Versions(const Dynamic& dynamic);
  struct Version {
    std::string_view name;
    std::string_view file;  // the object that must define it; empty for a definition of this object
  };
  Version version(uint16_t index) const;
  // By index: those that this object needs and `definer` does not define, if that has versions at all.
  std::vector<bool> undefined_in(const Versions& definer) const;

 private:
  bool defines(std::string_view name) const;
  void read_needed(const Dynamic& dynamic);
  void read_defined(const Dynamic& dynamic);
  void set(uint16_t index, Version version);
  std::vector<Version> versions_;
};

class DynamicSymbols {
 public:
  DynamicSymbols(const Image& image, const Dynamic& dynamic);

  // Index into the table; bounded by the file only, for relocations may name symbols that no hash table
  // counts.
  std::optional<Elf64_Sym> symbol(uint64_t index) const { return symbols_.at(index); }
  std::string_view name(const Elf64_Sym& symbol) const { return dynamic_.strings().at(symbol.st_name); }
  // .gnu.version's entry: VERSYM_HIDDEN (0x8000) and the index. VER_NDX_GLOBAL without versions.
  uint16_t version_entry(uint64_t index) const;
  bool versioned() const { return version_entries_.size() != 0; }
  Versions::Version version_of(uint64_t index) const;
  bool is_default(uint64_t index) const { return (version_entry(index) & 0x8000) == 0; }

  // Indexes of the defined symbols of that name, all versions, through .gnu.hash or DT_HASH.
  std::vector<uint64_t> lookup(std::string_view name) const;

  // Whether undefined symbols, which no hash table finds, stand before all that .gnu.hash does.
  bool undefined_stand_first() const;
  // Of all symbols of these names, defined or not, where they do. With `definer` those may be left out whose
  // version says that it cannot define them (glibc, elf/dl-lookup.c, check_match): their names need not be
  // read.
  std::vector<uint64_t> indexes_of(std::span<const std::string_view> names,
                                   const DynamicSymbols* definer = nullptr) const;
  bool is_called_any(const Elf64_Sym& symbol, std::span<const std::string_view> names) const;

  // Undefined symbols stand before this index. count(at_least()), where no table tells them from others.
  template <typename AtLeast>
  uint64_t undefined_end(AtLeast at_least) const {
    return undefined_stand_first() ? std::min<uint64_t>(gnu_.first, symbols_.size()) : count(at_least());
  }

  // How many symbols there are. No tag says so: it is what .dynsym's header or the hash tables tell; without
  // either (or with a .gnu.hash that exports nothing) the largest index that a relocation uses, `at_least`.
  uint64_t count(uint64_t at_least) const;

 private:
  std::vector<uint64_t> lookup_gnu(std::string_view name) const;
  std::vector<uint64_t> lookup_sysv(std::string_view name) const;
  bool defines(uint64_t index, std::string_view name) const;
  bool is_called(const Elf64_Sym& symbol, std::string_view name) const;
  bool exports_any() const;
  uint64_t count_gnu() const;
  const Versions& versions() const;

  // .gnu.hash: header, Bloom filter, buckets, and one hash for each symbol from `first` on.
  struct GnuHash {
    uint32_t first = 0, shift = 0;
    Table<uint64_t> bloom;
    Table<uint32_t> buckets, hashes;
  };
  GnuHash read_gnu_hash() const;

  const Image& image_;
  const Dynamic& dynamic_;
  Table<Elf64_Sym> symbols_;
  Table<uint16_t> version_entries_;
  GnuHash gnu_;
  Table<uint32_t> sysv_buckets_, sysv_chains_;
  mutable std::optional<Versions> versions_;
};

}  // namespace rtrace::elf
