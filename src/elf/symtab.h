// .symtab: the names of static functions, of this file or of its separate debug file. No index is built: one
// name is found by searching the string table for its bytes, and then the symbols for the places found, which
// is what start-up with one literal pattern needs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bytes.h"
#include "image.h"
#include "rtrace/elf/symbol.h"

namespace rtrace::elf {

class Symtab {
 public:
  // nullopt where there is none, or an empty one.
  static std::optional<Symtab> read(const Image& image, Symbol::Table origin);

  // Appends all function symbols whose address is executable in `object` (which differs from the image read
  // when that is a debug file).
  void functions(const Image& object, std::vector<Symbol>& out) const;
  void find_functions(const Image& object, std::string_view name, std::vector<Symbol>& out) const;
  void find_clones(const Image& object, std::string_view name, std::vector<Symbol>& out) const;
  // A defined symbol of any type.
  std::optional<ElfAddr> find_any(std::string_view name) const;

 private:
  Symtab(Table<Elf64_Sym> symbols, StringTable names, Symbol::Table origin)
      : symbols_(symbols), names_(names), origin_(origin) {}
  Symbol make(const Elf64_Sym& symbol) const;
  template <typename Accept>
  std::vector<uint32_t> name_offsets(std::string_view name, Accept accept) const;
  const std::vector<uint32_t>& places_of(std::string_view name) const;
  template <typename Take>
  void symbols_named(const std::vector<uint32_t>& offsets, Take take) const;

  Table<Elf64_Sym> symbols_;
  StringTable names_;
  Symbol::Table origin_;
  // Of the last name that was looked for: functions and clones of one are asked for in turn.
  struct Places {
    std::string name;
    std::vector<uint32_t> offsets;
  };
  mutable Places last_;
  mutable bool searched_ = false;  // the symbols, for names
};

// STT_FUNC or STT_GNU_IFUNC, defined, in executable memory.
bool is_function(const Elf64_Sym& symbol, const Image& object);
Symbol::Binding binding_of(const Elf64_Sym& symbol);

// True for what GCC and clang append to a function they have cloned and changed: one or more of .isra.N,
// .constprop.N, .part.N, .lto_priv.N, in any order. Never .cold, which is a piece of a function and no
// function.
bool is_clone_suffix(std::string_view suffix);

}  // namespace rtrace::elf
