// The dynamic relocations of an object, in the order of their tables.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "dynamic.h"
#include "image.h"

namespace rtrace::elf {

class Relocations {
 public:
  Relocations(const Image& image, const Dynamic& dynamic);

  // All but the R_X86_64_RELATIVE ones that DT_RELACOUNT says come first: those are most of a big library's,
  // and name nothing.
  template <typename Visit>
  void for_each_named(Visit visit) const {
    for (size_t i = first_named_; i < general_.size(); ++i) visit(general_[i]);
    for (size_t i = 0; i < plt_.size(); ++i) visit(plt_[i]);
  }
  // Those of them that fill a GOT slot with a symbol's address: a small part. Gathered on first use.
  const std::vector<Elf64_Rela>& of_slots() const;
  // What an R_X86_64_RELATIVE (or, without a relocation, DT_RELR or the file) puts into the word at `slot`.
  std::optional<uint64_t> relative_value(const Image& image, ElfAddr slot) const;

 private:
  Table<Elf64_Rela> general_, plt_;
  size_t first_named_ = 0;
  mutable std::optional<std::vector<Elf64_Rela>> of_slots_;
};

}  // namespace rtrace::elf
