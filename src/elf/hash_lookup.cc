// The two hash tables over .dynsym. DT_HASH is in the gABI; .gnu.hash is described by its reader in glibc,
// elf/dl-lookup.c (do_lookup_x), and its writer in binutils, bfd/elflink.c (elf_gnu_hash_process_symidx).
#include <algorithm>

#include "dynamic.h"

namespace rtrace::elf {
namespace {

uint32_t gnu_hash(std::string_view name) {
  uint32_t hash = 5381;
  for (char c : name) hash = hash * 33 + static_cast<unsigned char>(c);
  return hash;
}

uint32_t sysv_hash(std::string_view name) {
  uint32_t hash = 0;
  for (char c : name) {
    hash = (hash << 4) + static_cast<unsigned char>(c);
    uint32_t high = hash & 0xf0000000;
    hash = (hash ^ (high >> 24)) & ~high;
  }
  return hash;
}

}  // namespace

DynamicSymbols::GnuHash DynamicSymbols::read_gnu_hash() const {
  Bytes bytes = dynamic_.table(DT_GNU_HASH);
  Table<uint32_t> header(exactly(bytes, 0, 16));
  if (header.size() != 4) return {};
  uint64_t buckets_at = 16 + uint64_t{header[2]} * 8;
  uint64_t hashes_at = buckets_at + uint64_t{header[0]} * 4;
  GnuHash result{.first = header[1],
                 .shift = header[3],
                 .bloom = Table<uint64_t>(exactly(bytes, 16, uint64_t{header[2]} * 8)),
                 .buckets = Table<uint32_t>(exactly(bytes, buckets_at, uint64_t{header[0]} * 4)),
                 .hashes = Table<uint32_t>(clamped(bytes, hashes_at))};
  if (result.bloom.size() == 0 || result.buckets.size() == 0) {
    image_.warn("the .gnu.hash table does not fit its segment");
    return {};
  }
  return result;
}

// Without looking for the end of a name that is another.
bool DynamicSymbols::is_called(const Elf64_Sym& symbol, std::string_view name) const {
  const std::string_view all = dynamic_.strings().text();
  const size_t at = symbol.st_name;
  return at < all.size() && name.size() < all.size() - at && all[at] == name[0] &&
         all[at + name.size()] == '\0' && this->name(symbol) == name;
}

bool DynamicSymbols::defines(uint64_t index, std::string_view name) const {
  auto symbol = symbols_.at(index);
  return symbol && symbol->st_shndx != SHN_UNDEF && is_called(*symbol, name);
}

std::vector<uint64_t> DynamicSymbols::lookup(std::string_view name) const {
  if (name.empty()) return {};
  return gnu_.buckets.size() != 0 ? lookup_gnu(name) : lookup_sysv(name);
}

std::vector<uint64_t> DynamicSymbols::lookup_gnu(std::string_view name) const {
  uint32_t hash = gnu_hash(name);
  uint64_t word = gnu_.bloom[(hash / 64) % gnu_.bloom.size()];
  uint64_t bits = (uint64_t{1} << (hash % 64)) | (uint64_t{1} << ((hash >> (gnu_.shift % 32)) % 64));
  if ((word & bits) != bits) return {};
  std::vector<uint64_t> result;
  uint64_t index = gnu_.buckets[hash % gnu_.buckets.size()];
  if (index < gnu_.first) return {};
  // The lowest bit marks the last of a chain; a chain without one ends with the table.
  for (; auto entry = gnu_.hashes.at(index - gnu_.first); ++index) {
    if ((*entry | 1) == (hash | 1) && defines(index, name)) result.push_back(index);
    if ((*entry & 1) != 0) break;
  }
  return result;
}

std::vector<uint64_t> DynamicSymbols::lookup_sysv(std::string_view name) const {
  if (sysv_buckets_.size() == 0) return {};
  std::vector<uint64_t> result;
  uint32_t index = sysv_buckets_[sysv_hash(name) % sysv_buckets_.size()];
  // A chain longer than the table has a cycle.
  for (size_t steps = 0; index != STN_UNDEF && index < sysv_chains_.size() && steps < sysv_chains_.size();
       ++steps) {
    if (defines(index, name)) result.push_back(index);
    index = sysv_chains_[index];
  }
  return result;
}

// .gnu.hash leaves out what comes first in the table, the undefined symbols among it (binutils,
// bfd/elflink.c, elf_gnu_hash_process_symidx). But a program may stand for a function whose address it takes,
// with the PLT entry's: such an undefined symbol is hashed (elf_x86_64_hash_symbol).
bool DynamicSymbols::undefined_stand_first() const {
  const bool is_library = image_.header().e_type == ET_DYN && image_.program_header(PT_INTERP) == nullptr;
  return is_library && exports_any();
}

// Where nothing is hashed, linkers write what they like for the first that is.
bool DynamicSymbols::exports_any() const {
  for (size_t i = 0; i < gnu_.buckets.size(); ++i)
    if (gnu_.buckets[i] != 0) return true;
  return false;
}

bool DynamicSymbols::is_called_any(const Elf64_Sym& symbol, std::span<const std::string_view> names) const {
  return std::ranges::any_of(names,
                             [&](std::string_view name) { return !name.empty() && is_called(symbol, name); });
}

std::vector<uint64_t> DynamicSymbols::indexes_of(std::span<const std::string_view> names,
                                                 const DynamicSymbols* definer) const {
  constexpr size_t kFew = 256;  // names that are read as fast as versions
  std::vector<uint64_t> found;
  for (std::string_view name : names)
    for (uint64_t index : lookup(name)) found.push_back(index);
  const size_t end = std::min<size_t>(gnu_.first, symbols_.size());
  const bool by_version = definer != nullptr && end > kFew && versioned();
  const std::vector<bool> foreign =
      by_version ? versions().undefined_in(definer->versions()) : std::vector<bool>();
  for (size_t index = 1; index < end; ++index) {
    const size_t version = foreign.empty() ? 0 : version_entry(index) & 0x7fff;
    if (version < foreign.size() && foreign[version]) continue;
    if (is_called_any(symbols_[index], names)) found.push_back(index);
  }
  return found;
}

// Chains lie in the order of their buckets, so the chain of the largest start ends the table.
uint64_t DynamicSymbols::count_gnu() const {
  uint64_t last = 0;
  for (size_t i = 0; i < gnu_.buckets.size(); ++i) last = std::max(last, uint64_t{gnu_.buckets[i]});
  if (last < gnu_.first || last == 0) return gnu_.first;
  while (auto entry = gnu_.hashes.at(last - gnu_.first)) {
    ++last;
    if ((*entry & 1) != 0) break;
  }
  return last;
}

}  // namespace rtrace::elf
