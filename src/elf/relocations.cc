#include "relocations.h"

#include <algorithm>

namespace rtrace::elf {

Relocations::Relocations(const Image& image, const Dynamic& dynamic) {
  if (dynamic.present()) {
    general_ = Table<Elf64_Rela>(dynamic.table(DT_RELA, dynamic.value(DT_RELASZ)));
    // psABI, "Relocation": x86-64 uses Elf64_Rela only.
    if (dynamic.value(DT_PLTREL) == DT_RELA)
      plt_ = Table<Elf64_Rela>(dynamic.table(DT_JMPREL, dynamic.value(DT_PLTRELSZ)));
    first_named_ = static_cast<size_t>(std::min<uint64_t>(dynamic.value(DT_RELACOUNT), general_.size()));
    return;
  }
  // A static executable has only IRELATIVE relocations, between __rela_iplt_start and __rela_iplt_end: one
  // allocated SHT_RELA section.
  for (const Section& section : image.sections()) {
    if (section.header.sh_type != SHT_RELA || (section.header.sh_flags & SHF_ALLOC) == 0) continue;
    general_ = Table<Elf64_Rela>(image.contents(section));
    return;
  }
}

std::optional<uint64_t> Relocations::relative_value(const Image& image, ElfAddr slot) const {
  auto matches = [&](const Elf64_Rela& relocation) {
    return relocation.r_offset == slot.value && ELF64_R_TYPE(relocation.r_info) == R_X86_64_RELATIVE;
  };
  // ld -z combreloc sorts the RELATIVE ones by address; only where that fails are all of them looked at.
  size_t low = 0, high = first_named_;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (general_[middle].r_offset < slot.value)
      low = middle + 1;
    else
      high = middle;
  }
  if (low < first_named_ && matches(general_[low])) return static_cast<uint64_t>(general_[low].r_addend);
  for (size_t i = 0; i < general_.size(); ++i)
    if (matches(general_[i])) return static_cast<uint64_t>(general_[i].r_addend);
  return load<uint64_t>(image.at(slot, 8));
}

// gABI, "Initialization and Termination Functions": DT_INIT runs before the functions of DT_INIT_ARRAY.
std::optional<ElfAddr> find_first_initializer(const Image& image, const Dynamic& dynamic,
                                              const Relocations& relocations) {
  const ElfAddr init{dynamic.value(DT_INIT)};
  if (init && image.executable(init)) return init;
  const ElfAddr array{dynamic.value(DT_INIT_ARRAY)};
  if (!array) return std::nullopt;
  for (uint64_t i = 0; i < dynamic.value(DT_INIT_ARRAYSZ) / 8 && i < 16; ++i) {
    const auto function = relocations.relative_value(image, array + i * 8);
    if (function && image.executable({*function})) return ElfAddr{*function};
  }
  return std::nullopt;
}

}  // namespace rtrace::elf
