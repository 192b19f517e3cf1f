#include "symtab.h"

#include <algorithm>
#include <array>
#include <utility>

#include "text_search.h"

namespace rtrace::elf {

bool is_function(const Elf64_Sym& symbol, const Image& object) {
  unsigned type = ELF64_ST_TYPE(symbol.st_info);
  return (type == STT_FUNC || type == STT_GNU_IFUNC) && symbol.st_shndx != SHN_UNDEF &&
         object.executable({symbol.st_value});
}

Symbol::Binding binding_of(const Elf64_Sym& symbol) {
  switch (ELF64_ST_BIND(symbol.st_info)) {
    case STB_LOCAL:
      return Symbol::Binding::local;
    case STB_WEAK:
      return Symbol::Binding::weak;
    default:
      return Symbol::Binding::global;
  }
}

bool is_clone_suffix(std::string_view suffix) {
  static constexpr std::array<std::string_view, 4> kKinds = {".isra.", ".constprop.", ".part.", ".lto_priv."};
  if (suffix.empty()) return false;
  while (!suffix.empty()) {
    auto kind =
        std::find_if(kKinds.begin(), kKinds.end(), [&](std::string_view k) { return suffix.starts_with(k); });
    if (kind == kKinds.end()) return false;
    suffix.remove_prefix(kind->size());
    size_t digits = std::min(suffix.find_first_not_of("0123456789"), suffix.size());
    if (digits == 0) return false;
    suffix.remove_prefix(digits);
  }
  return true;
}

std::optional<Symtab> Symtab::read(const Image& image, Symbol::Table origin) {
  const auto section = image.section_of_type(SHT_SYMTAB);
  if (!section) return std::nullopt;
  Table<Elf64_Sym> symbols(image.contents(*section));
  const bool named = section->header.sh_link < image.sections().size();
  StringTable names(named ? image.contents(image.sections()[section->header.sh_link]) : Bytes{});
  if (section->header.sh_size > sizeof(Elf64_Sym) && (symbols.size() == 0 || names.text().empty()))
    image.warn(".symtab, or the table of its names, is not in the file");
  if (symbols.size() <= 1 || names.text().empty()) return std::nullopt;
  return Symtab(symbols, names, origin);
}

Symbol Symtab::make(const Elf64_Sym& symbol) const {
  Symbol result{.name = names_.at(symbol.st_name),
                .address = {symbol.st_value},
                .size = symbol.st_size,
                .binding = binding_of(symbol),
                .table = origin_,
                .ifunc = ELF64_ST_TYPE(symbol.st_info) == STT_GNU_IFUNC,
                .version = {}};
  // ld writes a definition made with .symver as name@VERSION or name@@VERSION here; .dynsym has the bare
  // name.
  size_t mark = result.name.find('@');
  if (mark != std::string_view::npos && mark > 0) {
    std::string_view version = result.name.substr(mark + 1);
    result.default_version = version.starts_with('@');
    result.version = result.default_version ? version.substr(1) : version;
    result.name = result.name.substr(0, mark);
  }
  return result;
}

void Symtab::functions(const Image& object, std::vector<Symbol>& out) const {
  for (size_t i = 1; i < symbols_.size(); ++i) {
    Elf64_Sym symbol = symbols_[i];
    if (!is_function(symbol, object)) continue;
    Symbol made = make(symbol);
    if (!made.name.empty()) out.push_back(made);
  }
}

// Of a table that is about to be searched. No more at once: nothing interrupts the call.
static void bring_in(Bytes table) {
  constexpr uint64_t kMost = uint64_t{4} << 20;
  populate(clamped(table, 0, kMost), Access::read);
}

// Where the string table has the bytes of `name`.
const std::vector<uint32_t>& Symtab::places_of(std::string_view name) const {
  if (last_.name == name) return last_.offsets;
  std::string_view text = names_.text();
  if (last_.name.empty()) bring_in(std::as_bytes(std::span(text)));
  last_ = {std::string(name), find_places(text, name)};
  return last_.offsets;
}

// Where in the string table `name` stands, followed by what `accept` takes. Some of these are tails of longer
// names, which the linker shares; a symbol means one exactly if its st_name is that offset.
template <typename Accept>
std::vector<uint32_t> Symtab::name_offsets(std::string_view name, Accept accept) const {
  std::vector<uint32_t> offsets;
  if (name.empty()) return offsets;
  std::string_view text = names_.text();
  for (const uint32_t offset : places_of(name)) {
    // What follows, to its end or as far as suffixes go: looking further in each place would take a hostile
    // table quadratic time.
    constexpr size_t kLongestSuffix = 256;
    std::string_view rest = text.substr(offset + name.size(), kLongestSuffix);
    if (!rest.empty() && accept(rest.substr(0, rest.find('\0')))) offsets.push_back(offset);
  }
  return offsets;
}

template <typename Take>
void Symtab::symbols_named(const std::vector<uint32_t>& offsets, Take take) const {
  if (offsets.empty()) return;
  // Nearly all are passed over, by the low bits of their names' offsets: these are a bit each here.
  constexpr uint32_t kBits = 64;
  uint64_t low_bits = 0;
  for (const uint32_t offset : offsets) low_bits |= uint64_t{1} << offset % kBits;
  const Table<Elf64_Sym> symbols = symbols_;
  if (!std::exchange(searched_, true)) bring_in(symbols.bytes());
  for (size_t i = 1, count = symbols.size(); i < count; ++i) {
    const auto name = symbols.member<uint32_t>(i, offsetof(Elf64_Sym, st_name));
    if ((low_bits >> name % kBits & 1) == 0) continue;
    if (std::binary_search(offsets.begin(), offsets.end(), name)) take(symbols[i]);
  }
}

void Symtab::find_functions(const Image& object, std::string_view name, std::vector<Symbol>& out) const {
  auto offsets =
      name_offsets(name, [](std::string_view rest) { return rest.empty() || rest.front() == '@'; });
  symbols_named(offsets, [&](const Elf64_Sym& symbol) {
    if (is_function(symbol, object)) out.push_back(make(symbol));
  });
}

void Symtab::find_clones(const Image& object, std::string_view name, std::vector<Symbol>& out) const {
  symbols_named(name_offsets(name, is_clone_suffix), [&](const Elf64_Sym& symbol) {
    if (is_function(symbol, object)) out.push_back(make(symbol));
  });
}

std::optional<ElfAddr> Symtab::find_any(std::string_view name) const {
  std::optional<ElfAddr> found;
  auto offsets =
      name_offsets(name, [](std::string_view rest) { return rest.empty() || rest.front() == '@'; });
  symbols_named(offsets, [&](const Elf64_Sym& symbol) {
    if (symbol.st_shndx != SHN_UNDEF && !found) found = ElfAddr{symbol.st_value};
  });
  return found;
}

}  // namespace rtrace::elf
