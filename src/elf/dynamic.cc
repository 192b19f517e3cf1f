#include "dynamic.h"

#include <algorithm>

namespace rtrace::elf {

Dynamic::Dynamic(const Image& image) : image_(image) {
  const Elf64_Phdr* header = image.program_header(PT_DYNAMIC);
  if (header == nullptr) return;
  // Through the address, not p_offset: that is what the dynamic linker reads.
  Table<Elf64_Dyn> entries(image.at({header->p_vaddr}, header->p_memsz));
  for (size_t i = 0; i < entries.size() && entries[i].d_tag != DT_NULL; ++i) entries_.push_back(entries[i]);
  present_ = !entries_.empty();
  if (!present_) {
    image.warn("the dynamic section is empty or not in the file");
    return;
  }
  strings_ = StringTable(table(DT_STRTAB, value(DT_STRSZ)));
  soname_ = value(DT_SONAME) != 0 ? strings_.at(value(DT_SONAME)) : std::string_view{};
  for (const Elf64_Dyn& entry : entries_)
    if (entry.d_tag == DT_NEEDED) needed_.push_back(strings_.at(entry.d_un.d_val));
  std::erase(needed_, std::string_view{});
}

uint64_t Dynamic::value(int64_t tag) const {
  auto found = std::find_if(entries_.rbegin(), entries_.rend(),
                            [&](const Elf64_Dyn& entry) { return entry.d_tag == tag; });
  return found == entries_.rend() ? 0 : found->d_un.d_val;
}

Bytes Dynamic::table(int64_t tag, uint64_t size) const {
  uint64_t address = value(tag);
  return address == 0 ? Bytes{} : image_.at({address}, size);
}

Versions::Versions(const Dynamic& dynamic) {
  read_needed(dynamic);
  read_defined(dynamic);
}

void Versions::set(uint16_t index, Version version) {
  size_t at = index & 0x7fff;
  if (at >= versions_.size()) versions_.resize(at + 1);
  versions_[at] = version;
}

Versions::Version Versions::version(uint16_t index) const {
  size_t at = index & 0x7fff;
  // 0 and 1 are VER_NDX_LOCAL and VER_NDX_GLOBAL; the definition with index 1 is the object's own name.
  return at > VER_NDX_GLOBAL && at < versions_.size() ? versions_[at] : Version{};
}

bool Versions::defines(std::string_view name) const {
  return std::ranges::any_of(
      versions_, [&](const Version& version) { return version.file.empty() && version.name == name; });
}

std::vector<bool> Versions::undefined_in(const Versions& definer) const {
  std::vector<bool> foreign(versions_.size());
  const bool unversioned = std::ranges::all_of(
      definer.versions_, [](const Version& v) { return v.name.empty() || !v.file.empty(); });
  if (unversioned) return foreign;
  for (size_t i = VER_NDX_GLOBAL + 1; i < versions_.size(); ++i)
    foreign[i] = !versions_[i].file.empty() && !definer.defines(versions_[i].name);
  return foreign;
}

// Both lists are chains of relative offsets. They only ever go forward, so a walk ends with the bytes;
// entries that overlap could still make it quadratic, which the shared budget excludes.
void Versions::read_needed(const Dynamic& dynamic) {
  Bytes bytes = dynamic.table(DT_VERNEED);
  size_t budget = 0x8000;
  uint64_t at = 0;
  for (uint64_t left = dynamic.value(DT_VERNEEDNUM); left > 0 && budget > 0; --left, --budget) {
    auto need = load<Elf64_Verneed>(bytes, at);
    if (!need) return;
    std::string_view file = dynamic.strings().at(need->vn_file);
    uint64_t aux = at + need->vn_aux;
    for (unsigned i = 0; i < need->vn_cnt; ++i) {
      auto version = load<Elf64_Vernaux>(bytes, aux);
      if (!version || budget <= 1) return;
      --budget;
      set(version->vna_other, {dynamic.strings().at(version->vna_name), file});
      if (version->vna_next == 0) break;
      aux += version->vna_next;
    }
    if (need->vn_next == 0) return;
    at += need->vn_next;
  }
}

void Versions::read_defined(const Dynamic& dynamic) {
  Bytes bytes = dynamic.table(DT_VERDEF);
  size_t budget = 0x8000;
  uint64_t at = 0;
  for (uint64_t left = dynamic.value(DT_VERDEFNUM); left > 0 && budget > 0; --left, --budget) {
    auto definition = load<Elf64_Verdef>(bytes, at);
    if (!definition) return;
    // The first auxiliary entry is the version's name, the others are what it inherits from.
    if (auto name = load<Elf64_Verdaux>(bytes, at + definition->vd_aux))
      set(definition->vd_ndx, {dynamic.strings().at(name->vda_name), {}});
    if (definition->vd_next == 0) return;
    at += definition->vd_next;
  }
}

DynamicSymbols::DynamicSymbols(const Image& image, const Dynamic& dynamic)
    : image_(image),
      dynamic_(dynamic),
      symbols_(dynamic.table(DT_SYMTAB)),
      version_entries_(dynamic.table(DT_VERSYM)) {
  gnu_ = read_gnu_hash();
  Bytes sysv = dynamic.table(DT_HASH);
  auto buckets = load<uint32_t>(sysv, 0), chains = load<uint32_t>(sysv, 4);
  if (!buckets || !chains) return;
  sysv_buckets_ = Table<uint32_t>(exactly(sysv, 8, uint64_t{*buckets} * 4));
  sysv_chains_ = Table<uint32_t>(exactly(sysv, 8 + uint64_t{*buckets} * 4, uint64_t{*chains} * 4));
}

uint16_t DynamicSymbols::version_entry(uint64_t index) const {
  return version_entries_.at(index).value_or(uint16_t{VER_NDX_GLOBAL});
}

const Versions& DynamicSymbols::versions() const {
  if (!versions_) versions_.emplace(dynamic_);
  return *versions_;
}

Versions::Version DynamicSymbols::version_of(uint64_t index) const {
  return versioned() ? versions().version(version_entry(index)) : Versions::Version{};
}

uint64_t DynamicSymbols::count(uint64_t at_least) const {
  uint64_t count = std::max({at_least, uint64_t{sysv_chains_.size()}, count_gnu()});
  if (const auto section = image_.section_of_type(SHT_DYNSYM)) {
    // Only where it describes the very table that is loaded.
    if (section->header.sh_addr == dynamic_.value(DT_SYMTAB))
      count = std::max(count, section->header.sh_size / sizeof(Elf64_Sym));
  }
  return std::min<uint64_t>(count, symbols_.size());
}

}  // namespace rtrace::elf
