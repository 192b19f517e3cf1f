// From relocations to CallSlots: names, stubs, direct references.
#pragma once

#include <span>
#include <vector>

#include "dynamic.h"
#include "image.h"
#include "relocations.h"
#include "rtrace/elf/elf_file.h"

namespace rtrace::elf {

// The call slots of an object. Finding references outside the stubs means reading all of its text, so that is
// done only when it can matter.
class CallSlots {
 public:
  // Of the symbols with these indexes only; none: of all. Without PLT sections stubs are known by each other.
  CallSlots(const Image& image, const DynamicSymbols& symbols, const Relocations& relocations,
            std::span<const uint64_t> wanted = {});
  // Without direct references as long as nobody has called with_references().
  const std::vector<CallSlot>& slots() const { return slots_; }
  const std::vector<CallSlot>& with_references();
  // The wanted ones; the text is searched only if one of them may be called directly.
  std::vector<CallSlot> those(const WantedSlot& wanted);

 private:
  void resolve_by_sections();
  void resolve_by_segments();

  const Image& image_;
  std::vector<CallSlot> slots_;
  std::vector<ElfAddr> addresses_;  // of the slots
  bool scanned_ = false;
};
// The symbols of these names that slots may be for. Looks at names, and versions as indexes_of() does.
std::vector<uint64_t> indexes_of_slots(const DynamicSymbols& symbols, const Relocations& relocations,
                                       std::span<const std::string_view> names,
                                       const DynamicSymbols* definer);
bool has_plt_sections(const Image& image);
// Whether it may be called by other means than its stub: the linker gives a function that is used in both
// ways one GLOB_DAT slot.
bool may_be_called_directly(const CallSlot& slot);

std::vector<IrelativeSlot> read_irelative_slots(const Relocations& relocations);
// Whether it stands for a function of another object.
bool is_import(const Elf64_Sym& symbol);
bool imports_any(const DynamicSymbols& symbols, const Relocations& relocations,
                 std::span<const std::string_view> names, const DynamicSymbols* definer);
std::vector<ElfFile::Import> read_imports(const DynamicSymbols& symbols, const Relocations& relocations);

}  // namespace rtrace::elf
