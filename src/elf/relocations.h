// The dynamic relocations of an object, in the order of their tables.
#pragma once

#include <cstdint>
#include <optional>

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
  // Those of them that fill a GOT slot with a symbol's address: a small part.
  template <typename Visit>
  void for_each_slot(Visit visit) const {
    for_each_named([&](const Elf64_Rela& relocation) {
      const auto type = ELF64_R_TYPE(relocation.r_info);
      if (type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT) visit(relocation);
    });
  }
  // What an R_X86_64_RELATIVE (or, without a relocation, DT_RELR or the file) puts into the word at `slot`.
  std::optional<uint64_t> relative_value(const Image& image, ElfAddr slot) const;

 private:
  Table<Elf64_Rela> general_, plt_;
  size_t first_named_ = 0;
};

// The function that runs first when the object has been relocated.
std::optional<ElfAddr> find_first_initializer(const Image& image, const Dynamic& dynamic,
                                              const Relocations& relocations);

}  // namespace rtrace::elf
