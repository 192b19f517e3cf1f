#include "call_slots.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "slot_scan.h"

namespace rtrace::elf {
namespace {

bool has_no_type(const Elf64_Sym& symbol) {
  return ELF64_ST_TYPE(symbol.st_info) == STT_NOTYPE;
}

// A symbol that may be called through its GOT entry. Undefined symbols often have no type (gold, hand-written
// assembly).
bool callable(const Elf64_Sym& symbol, const Image& image) {
  unsigned type = ELF64_ST_TYPE(symbol.st_info);
  if (type == STT_FUNC || type == STT_GNU_IFUNC) return true;
  return has_no_type(symbol) && (symbol.st_shndx == SHN_UNDEF || image.executable({symbol.st_value}));
}

std::vector<CallSlot> slots_of(const Image& image, const DynamicSymbols& symbols,
                               const Relocations& relocations, std::span<const uint64_t> wanted) {
  std::vector<CallSlot> slots;
  relocations.for_each_slot([&](const Elf64_Rela& relocation) {
    const uint64_t index = ELF64_R_SYM(relocation.r_info);
    if (!wanted.empty() && std::ranges::find(wanted, index) == wanted.end()) return;
    const auto type = ELF64_R_TYPE(relocation.r_info);
    auto symbol = symbols.symbol(index);
    if (!symbol || index == STN_UNDEF || symbols.name(*symbol).empty()) return;
    if (type == R_X86_64_GLOB_DAT && !callable(*symbol, image)) return;
    slots.push_back({.name = symbols.name(*symbol),
                     .version = symbols.version_of(index).name,
                     .slot = {relocation.r_offset},
                     .relocation = type == R_X86_64_JUMP_SLOT ? CallSlot::Relocation::jump_slot
                                                              : CallSlot::Relocation::glob_dat,
                     .stub = {},
                     .tail_jumps = {},
                     .loads = {}});
  });
  std::stable_sort(slots.begin(), slots.end(),
                   [](const CallSlot& a, const CallSlot& b) { return a.slot < b.slot; });
  // The dynamic linker applies relocations in order: of two for one slot the last one holds.
  auto last = std::unique(slots.rbegin(), slots.rend(),
                          [](const CallSlot& a, const CallSlot& b) { return a.slot == b.slot; });
  slots.erase(slots.begin(), last.base());
  return slots;
}

CallSlot& slot_at(std::vector<CallSlot>& slots, ElfAddr address) {
  return *std::lower_bound(slots.begin(), slots.end(), address,
                           [](const CallSlot& slot, ElfAddr wanted) { return slot.slot < wanted; });
}

void add_direct(CallSlot& slot, const SlotReference& reference) {
  using Kind = SlotReference::Kind;
  slot.called_directly |= reference.kind != Kind::address;
  if (reference.kind == Kind::jump) slot.tail_jumps.push_back(reference.address);
  if (reference.kind == Kind::load || reference.kind == Kind::address)
    slot.loads.push_back(reference.address);
}

bool is_plt(const Section& section) {
  return section.executable() && (section.name().starts_with(".plt") || section.name().starts_with(".iplt"));
}

// What may follow a stub's jump inside its 8 or 16 bytes: `push $index` of a lazy entry, or padding.
bool stub_may_end_at(const CodeBytes& code, ElfAddr end) {
  uint64_t at = end - code.address;
  if (end.value % 8 == 0) return true;
  auto next = load<uint8_t>(code.bytes, at);
  if (!next) return true;
  return *next == 0x68 || *next == 0x66 || *next == 0x90 || *next == 0x0f || *next == 0xcc || *next == 0;
}

// The jumps of a segment that look like stubs, by where the stub begins.
using StubCandidates = std::map<ElfAddr, const SlotReference*>;

StubCandidates stub_candidates(const CodeBytes& code, const std::vector<SlotReference>& references) {
  StubCandidates stubs;
  for (const SlotReference& reference : references) {
    ElfAddr begin = stub_begin(code, reference.address);
    if (reference.kind == SlotReference::Kind::jump && begin.value % 8 == 0 &&
        stub_may_end_at(code, reference.address + kSlotReferenceLength))
      stubs.emplace(begin, &reference);
  }
  return stubs;
}

// A stub has another at the distance of one PLT entry, or before it PLT0, which begins with `push
// link_map(%rip)` (ff 35).
bool stands_in_a_plt(const CodeBytes& code, const StubCandidates& stubs, ElfAddr begin) {
  for (uint64_t distance : {uint64_t{8}, uint64_t{16}})
    if (stubs.contains(begin + distance) || stubs.contains(begin - distance)) return true;
  uint64_t offset = begin - code.address;
  return offset >= 16 && load<uint16_t>(code.bytes, offset - 16) == uint16_t{0x35ff};
}

}  // namespace

std::vector<uint64_t> indexes_of_slots(const DynamicSymbols& symbols, const Relocations& relocations,
                                       std::span<const std::string_view> names,
                                       const DynamicSymbols* definer) {
  if (symbols.undefined_stand_first()) return symbols.indexes_of(names, definer);
  std::vector<uint64_t> found;
  relocations.for_each_slot([&](const Elf64_Rela& relocation) {
    const uint64_t index = ELF64_R_SYM(relocation.r_info);
    const auto symbol = symbols.symbol(index);
    if (symbol && symbols.is_called_any(*symbol, names)) found.push_back(index);
  });
  return found;
}

bool has_plt_sections(const Image& image) {
  return std::ranges::any_of(image.sections(), is_plt);
}

bool may_be_called_directly(const CallSlot& slot) {
  return !slot.stub || slot.relocation == CallSlot::Relocation::glob_dat;
}

CallSlots::CallSlots(const Image& image, const DynamicSymbols& symbols, const Relocations& relocations,
                     std::span<const uint64_t> wanted)
    : image_(image), slots_(slots_of(image, symbols, relocations, wanted)) {
  for (const CallSlot& slot : slots_) addresses_.push_back(slot.slot);
  if (slots_.empty()) {
    scanned_ = true;
  } else if (!has_plt_sections(image)) {
    // No section headers, or none that tell; -fno-plt without any PLT is read the same way.
    resolve_by_segments();
    scanned_ = true;
  } else {
    resolve_by_sections();
  }
}

// With section headers stubs are what stands in the PLT sections, direct references what stands elsewhere.
void CallSlots::resolve_by_sections() {
  std::vector<Section> plts;
  for (const Section& section : image_.sections())
    if (is_plt(section)) plts.push_back(section);
  // With IBT and lazy binding calls land in .plt.sec, and .plt holds what the first call falls back to.
  // psABI, "Procedure Linkage Table".
  auto second = [](const Section& section) {
    return section.name() == ".plt.sec" || section.name() == ".plt.bnd";
  };
  std::stable_partition(plts.begin(), plts.end(), second);
  for (const Section& section : plts) {
    CodeBytes code{{section.header.sh_addr}, image_.contents(section)};
    for (const SlotReference& reference : find_slot_references(code, addresses_)) {
      CallSlot& slot = slot_at(slots_, reference.slot);
      if (!slot.stub) slot.stub = stub_of(code, reference);
    }
  }
}

const std::vector<CallSlot>& CallSlots::with_references() {
  if (std::exchange(scanned_, true) || std::ranges::none_of(slots_, may_be_called_directly)) return slots_;
  for (const Section& section : image_.sections()) {
    if (!section.executable() || is_plt(section)) continue;
    CodeBytes code{{section.header.sh_addr}, image_.contents(section)};
    for (const SlotReference& reference : find_slot_references(code, addresses_))
      add_direct(slot_at(slots_, reference.slot), reference);
  }
  return slots_;
}

std::vector<CallSlot> CallSlots::those(const WantedSlot& wanted) {
  std::vector<size_t> places;
  bool may_be_direct = false;
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (!wanted(slots_[i])) continue;
    places.push_back(i);
    may_be_direct |= may_be_called_directly(slots_[i]);
  }
  if (may_be_direct) with_references();
  std::vector<CallSlot> found;
  for (const size_t place : places) found.push_back(slots_[place]);
  return found;
}

// Without section headers a stub is told from a tail jump by its place. Only a JUMP_SLOT, which exists for
// its stub, takes one that stands alone.
void CallSlots::resolve_by_segments() {
  for (const Segment& segment : image_.segments()) {
    if (!segment.executable) continue;
    CodeBytes code{segment.memory.begin, image_.at(segment.memory.begin)};
    std::vector<SlotReference> references = find_slot_references(code, addresses_);
    StubCandidates stubs = stub_candidates(code, references);
    std::set<const SlotReference*> used;
    for (bool must_be_in_plt : {true, false}) {
      for (const auto& [begin, reference] : stubs) {
        CallSlot& slot = slot_at(slots_, reference->slot);
        bool alone_is_enough = !must_be_in_plt && slot.relocation == CallSlot::Relocation::jump_slot;
        if (slot.stub || !(alone_is_enough || stands_in_a_plt(code, stubs, begin))) continue;
        slot.stub = begin;
        used.insert(reference);
      }
    }
    for (const SlotReference& reference : references)
      if (!used.contains(&reference)) add_direct(slot_at(slots_, reference.slot), reference);
  }
}

std::vector<IrelativeSlot> read_irelative_slots(const Relocations& relocations) {
  std::vector<IrelativeSlot> slots;
  relocations.for_each_named([&](const Elf64_Rela& relocation) {
    if (ELF64_R_TYPE(relocation.r_info) != R_X86_64_IRELATIVE) return;
    slots.push_back({{relocation.r_offset}, {static_cast<uint64_t>(relocation.r_addend)}});
  });
  return slots;
}

bool is_import(const Elf64_Sym& symbol) {
  const unsigned type = ELF64_ST_TYPE(symbol.st_info);
  const bool may_be_function = type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE;
  return symbol.st_shndx == SHN_UNDEF && may_be_function;
}

namespace {

uint64_t end_of_imports(const DynamicSymbols& symbols, const Relocations& relocations) {
  return symbols.undefined_end([&] {
    uint64_t used = 0;
    relocations.for_each_named([&](const Elf64_Rela& relocation) {
      used = std::max<uint64_t>(used, ELF64_R_SYM(relocation.r_info) + 1);
    });
    return used;
  });
}

}  // namespace

bool imports_any(const DynamicSymbols& symbols, const Relocations& relocations,
                 std::span<const std::string_view> names, const DynamicSymbols* definer) {
  const auto is_one = [&](uint64_t index) {
    const auto symbol = symbols.symbol(index);
    return symbol && is_import(*symbol) && symbols.is_called_any(*symbol, names);
  };
  if (symbols.undefined_stand_first()) return std::ranges::any_of(symbols.indexes_of(names, definer), is_one);
  for (uint64_t i = 1, end = end_of_imports(symbols, relocations); i < end; ++i)
    if (is_one(i)) return true;
  return false;
}

std::vector<ElfFile::Import> read_imports(const DynamicSymbols& symbols, const Relocations& relocations) {
  const uint64_t end = end_of_imports(symbols, relocations);
  std::vector<ElfFile::Import> imports;
  std::vector<uint32_t> places;  // of their names
  for (uint64_t i = 1; i < end; ++i) {
    auto symbol = symbols.symbol(i);
    if (!symbol || !is_import(*symbol)) continue;
    std::string_view name = symbols.name(*symbol);
    if (name.empty()) continue;
    imports.push_back({name, symbols.version_of(i).file});
    places.push_back(symbol->st_name);
  }
  // Several versions of one function are rare, and linkers write each name once.
  std::ranges::sort(places);
  if (std::ranges::adjacent_find(places) == places.end()) return imports;
  std::set<std::string_view> seen;
  std::erase_if(imports, [&](const ElfFile::Import& import) { return !seen.insert(import.name).second; });
  return imports;
}

}  // namespace rtrace::elf
