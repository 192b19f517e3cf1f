#include "rtrace/elf/elf_file.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "call_slots.h"
#include "debug_data.h"
#include "debug_file.h"
#include "dynamic.h"
#include "frames.h"
#include "image.h"
#include "memory_image.h"
#include "relocations.h"
#include "rtrace/base/error.h"
#include "rtrace/base/log.h"
#include "sdt_notes.h"
#include "slot_uses.h"
#include "symbol_order.h"
#include "symtab.h"

namespace rtrace::elf {

// What is cheap and always needed is read at once; tables on first use. One thread only, as all of the
// engine.
struct ElfFile::Impl {
  Impl(Mapping mapping, std::string file_path)
      : path(std::move(file_path)),
        image(std::move(mapping)),
        dynamic(image),
        dynamic_symbols(image, dynamic),
        relocations(image, dynamic) {}

  std::string path;
  bool from_memory = false;
  Image image;
  Dynamic dynamic;
  DynamicSymbols dynamic_symbols;
  Relocations relocations;

  // Outer optional: whether it was looked for.
  std::optional<std::optional<Symtab>> own_symtab, debug_symtab;
  std::unique_ptr<Image> debug_image;  // what debug_symtab points into

  std::optional<std::vector<Symbol>> functions;
  std::optional<CallSlots> call_slots;
  std::optional<std::vector<IrelativeSlot>> irelative_slots;
  std::optional<std::vector<Import>> imports;
  std::optional<std::vector<ElfRange>> frame_ranges;
  std::optional<std::vector<SdtNote>> sdt_notes;

  const std::optional<Symtab>& symtab() {
    if (!own_symtab) own_symtab = Symtab::read(image, Symbol::Table::symtab);
    return *own_symtab;
  }

  // The symbol table for static functions: the object's own, else its debug file's, else the one packed into
  // it.
  const std::optional<Symtab>& static_symbols() {
    if (symtab()) return symtab();
    if (!debug_symtab) {
      debug_image = find_debug_file(image, path).image;
      debug_symtab = debug_image ? Symtab::read(*debug_image, Symbol::Table::debug_file) : std::nullopt;
      RTRACE_LOG(elf, 1, "{}: stripped, {} debug file", path, *debug_symtab ? "symbols from its" : "no");
      if (!*debug_symtab && (debug_image = read_debug_data(image)) != nullptr)
        debug_symtab = Symtab::read(*debug_image, Symbol::Table::debugdata);
    }
    return *debug_symtab;
  }

  CallSlots& slots() {
    if (!call_slots) call_slots.emplace(image, dynamic_symbols, relocations);
    return *call_slots;
  }

  Symbol dynamic_symbol(uint64_t index, const Elf64_Sym& symbol) const {
    return {.name = dynamic_symbols.name(symbol),
            .address = {symbol.st_value},
            .size = symbol.st_size,
            .binding = binding_of(symbol),
            .table = Symbol::Table::dynsym,
            .ifunc = ELF64_ST_TYPE(symbol.st_info) == STT_GNU_IFUNC,
            .version = dynamic_symbols.version_of(index).name,
            .default_version = dynamic_symbols.is_default(index)};
  }
};

namespace {

bool bindable(const Elf64_Sym& symbol, const Image& image) {
  unsigned type = ELF64_ST_TYPE(symbol.st_info), binding = ELF64_ST_BIND(symbol.st_info);
  unsigned visibility = ELF64_ST_VISIBILITY(symbol.st_other);
  return binding != STB_LOCAL && (visibility == STV_DEFAULT || visibility == STV_PROTECTED) &&
         (type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE) &&
         image.executable({symbol.st_value});
}

}  // namespace

ElfFile::ElfFile(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ElfFile::~ElfFile() = default;

std::unique_ptr<ElfFile::Impl> ElfFile::parse(Mapping mapping, const std::string& path) {
  auto impl = std::make_unique<Impl>(std::move(mapping), path);
  uint16_t type = impl->image.header().e_type;
  if (type != ET_EXEC && type != ET_DYN) throw Error("neither an executable nor a shared object");
  if (impl->image.segments().empty()) throw Error("nothing to load: no PT_LOAD");
  return impl;
}

std::shared_ptr<const ElfFile> ElfFile::open(UniqueFd fd, std::string path) {
  try {
    return std::shared_ptr<const ElfFile>(new ElfFile(parse(begun(Mapping::of_file(fd.get())), path)));
  } catch (const Error& error) {
    throw Error::make("{}: {}", path, error.what());
  }
}

ElfFile::Mapped ElfFile::from_memory(const Memory& memory, VirtAddr header, std::string path) {
  try {
    MemoryImage image = read_memory_image(memory, header);
    auto impl = parse(std::move(image.file), path);
    impl->from_memory = true;
    return {std::shared_ptr<const ElfFile>(new ElfFile(std::move(impl))), image.bias};
  } catch (const Error& error) {
    throw Error::make("{}: {}", path, error.what());
  }
}

std::shared_ptr<const ElfFile> ElfFile::open(const std::string& path) {
  // O_NONBLOCK: opening a FIFO must not make us wait; it is then refused as no regular file.
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) throw Error::from_errno(errno, "{}", path);
  return open(std::move(fd), path);
}

const std::string& ElfFile::path() const {
  return impl_->path;
}

FileType ElfFile::type() const {
  return impl_->image.header().e_type == ET_EXEC ? FileType::executable : FileType::shared;
}

ElfAddr ElfFile::entry() const {
  return {impl_->image.header().e_entry};
}

std::optional<ElfAddr> ElfFile::dynamic() const {
  const Elf64_Phdr* header = impl_->image.program_header(PT_DYNAMIC);
  if (header == nullptr) return std::nullopt;
  return ElfAddr{header->p_vaddr};
}

ElfAddr ElfFile::program_headers() const {
  if (const Elf64_Phdr* header = impl_->image.program_header(PT_PHDR)) return {header->p_vaddr};
  uint64_t offset = impl_->image.header().e_phoff;
  for (const Segment& segment : segments())
    if (segment.offset.value <= offset && offset - segment.offset.value < segment.file_size)
      return segment.memory.begin + (offset - segment.offset.value);
  return {};
}

std::string_view ElfFile::interpreter() const {
  const Elf64_Phdr* header = impl_->image.program_header(PT_INTERP);
  if (header == nullptr) return {};
  return StringTable(exactly(impl_->image.file(), header->p_offset, header->p_filesz)).at(0);
}

std::string_view ElfFile::soname() const {
  return impl_->dynamic.soname();
}

std::span<const std::byte> ElfFile::build_id() const {
  const auto& found = impl_->image.build_id();
  return found ? found->bytes : Bytes{};
}

std::optional<ElfAddr> ElfFile::build_id_note() const {
  const auto& found = impl_->image.build_id();
  if (!found) return std::nullopt;
  for (const Segment& segment : segments()) {
    if (found->offset < segment.offset) continue;
    uint64_t inside = found->offset - segment.offset;
    if (inside < segment.file_size && found->bytes.size() <= segment.file_size - inside)
      return segment.memory.begin + inside;
  }
  return std::nullopt;
}

const std::vector<Segment>& ElfFile::segments() const {
  return impl_->image.segments();
}
const std::vector<std::string_view>& ElfFile::needed() const {
  return impl_->dynamic.needed();
}
const std::vector<std::string>& ElfFile::warnings() const {
  return impl_->image.warnings();
}
bool ElfFile::stripped() const {
  return !impl_->symtab();
}
bool ElfFile::is_from_memory() const {
  return impl_->from_memory;
}
bool ElfFile::preserves_registers() const {
  return !impl_->image.section(".go.buildinfo") && !find_exported("caml_frametable");
}

// SHT_NOBITS: what `objcopy --only-keep-debug` or a stripped file leaves of a section.
bool ElfFile::has_debug_info() const {
  return std::ranges::any_of(impl_->image.sections(), [](const Section& section) {
    return section.header.sh_type != SHT_NOBITS &&
           (section.name() == ".debug_info" || section.name() == ".zdebug_info");
  });
}

std::optional<ElfFile::SeparateFile> ElfFile::open_debug_file() const {
  DebugFile found = find_debug_file(impl_->image, impl_->path);
  if (!found.image) return std::nullopt;
  return SeparateFile{std::move(found.fd), std::move(found.path)};
}

std::span<const std::byte> ElfFile::bytes_at(ElfAddr address, size_t size) const {
  return impl_->image.at(address, size);
}

const std::vector<Symbol>& ElfFile::functions() const {
  if (impl_->functions) return *impl_->functions;
  std::vector<Symbol> all;
  const DynamicSymbols& dynamic = impl_->dynamic_symbols;
  uint64_t count = dynamic.count(0);
  for (uint64_t i = 1; i < count; ++i) {
    auto symbol = dynamic.symbol(i);
    if (symbol && is_function(*symbol, impl_->image) && !dynamic.name(*symbol).empty())
      all.push_back(impl_->dynamic_symbol(i, *symbol));
  }
  if (const auto& symtab = impl_->static_symbols()) symtab->functions(impl_->image, all);
  sort_and_merge(all);
  all.shrink_to_fit();
  impl_->functions = std::move(all);
  return *impl_->functions;
}

std::vector<Symbol> ElfFile::find_function(std::string_view name) const {
  std::vector<Symbol> found;
  for (uint64_t index : impl_->dynamic_symbols.lookup(name)) {
    auto symbol = impl_->dynamic_symbols.symbol(index);
    if (symbol && is_function(*symbol, impl_->image)) found.push_back(impl_->dynamic_symbol(index, *symbol));
  }
  if (const auto& symtab = impl_->static_symbols()) symtab->find_functions(impl_->image, name, found);
  sort_and_merge(found);
  return found;
}

std::vector<Symbol> ElfFile::find_clones(std::string_view name) const {
  std::vector<Symbol> found;
  if (const auto& symtab = impl_->static_symbols()) symtab->find_clones(impl_->image, name, found);
  sort_and_merge(found);
  return found;
}

// As glibc's elf/dl-lookup.c, do_lookup_x and check_match: a hidden version is bound only by references that
// name it, and an unversioned definition serves every reference.
std::optional<Symbol> ElfFile::find_exported(std::string_view name, std::string_view version) const {
  const DynamicSymbols& dynamic = impl_->dynamic_symbols;
  for (uint64_t index : dynamic.lookup(name)) {
    auto symbol = dynamic.symbol(index);
    if (!symbol || !bindable(*symbol, impl_->image) || dynamic.version_entry(index) == VER_NDX_LOCAL)
      continue;
    Symbol found = impl_->dynamic_symbol(index, *symbol);
    bool fits = found.default_version && (version.empty() || found.version.empty());
    if (fits || (!version.empty() && found.version == version)) return found;
  }
  return std::nullopt;
}

std::optional<Symbol> ElfFile::function_at(ElfAddr address) const {
  const auto& all = functions();
  auto after = std::upper_bound(all.begin(), all.end(), address,
                                [](ElfAddr wanted, const Symbol& symbol) { return wanted < symbol.address; });
  // Functions hardly ever nest; a bound keeps a hostile table from making each question linear.
  constexpr ptrdiff_t kDepth = 64;
  std::optional<Symbol> best;
  for (auto at = after; at != all.begin() && after - at < kDepth;) {
    --at;
    if (best && at->address < best->address) break;
    if (address - at->address < at->size && (!best || is_better_name(*at, *best))) best = *at;
  }
  if (best || after == all.begin()) return best;
  // No size: only if nothing that has one lies in between, and not across sections, which may be other code
  // altogether (.plt after .init).
  const Symbol& nearest = *std::prev(after);
  if (nearest.size != 0) return std::nullopt;
  const Image& image = impl_->image;
  const auto begin = [&](ElfAddr at) {
    const auto section = image.section_of(at);
    return section ? std::optional(section->memory().begin) : std::nullopt;
  };
  const bool together = image.sections().empty()
                            ? image.segment_of(nearest.address) == image.segment_of(address)
                            : begin(nearest.address) == begin(address);
  return together ? std::optional(nearest) : std::nullopt;
}

std::optional<ElfAddr> ElfFile::find_symbol(std::string_view name) const {
  for (uint64_t index : impl_->dynamic_symbols.lookup(name))
    if (auto symbol = impl_->dynamic_symbols.symbol(index)) return ElfAddr{symbol->st_value};
  if (const auto& symtab = impl_->static_symbols()) return symtab->find_any(name);
  return std::nullopt;
}

// The main program's block ends at the thread pointer (Drepper, "ELF Handling For Thread-Local Storage", 3:
// variant II, tlsoffset_1).
std::optional<int64_t> ElfFile::thread_offset(std::string_view name) const {
  const Elf64_Phdr* block = impl_->image.program_header(PT_TLS);
  const auto symbol = find_symbol(name);
  if (block == nullptr || !symbol || symbol->value >= block->p_memsz) return std::nullopt;
  const uint64_t alignment = std::max<uint64_t>(block->p_align, 1);
  const uint64_t size = (block->p_memsz + alignment - 1) / alignment * alignment;
  return static_cast<int64_t>(symbol->value - size);
}

const std::vector<CallSlot>& ElfFile::call_slots() const {
  return impl_->slots().with_references();
}

std::vector<CallSlot> ElfFile::find_call_slots(std::span<const std::string_view> names,
                                               const ElfFile* definer) const {
  const DynamicSymbols& dynamic = impl_->dynamic_symbols;
  if (!impl_->call_slots && has_plt_sections(impl_->image)) {
    // Most objects do not even name it.
    const auto indexes = indexes_of_slots(dynamic, impl_->relocations, names,
                                          definer == nullptr ? nullptr : &definer->impl_->dynamic_symbols);
    if (indexes.empty()) return {};
    const CallSlots some(impl_->image, dynamic, impl_->relocations, indexes);
    if (std::ranges::none_of(some.slots(), may_be_called_directly)) return some.slots();
  }
  return find_call_slots(
      [&](const CallSlot& slot) { return std::ranges::find(names, slot.name) != names.end(); });
}

std::vector<CallSlot> ElfFile::find_call_slots(const WantedSlot& wanted) const {
  return impl_->slots().those(wanted);
}

std::vector<ElfAddr> ElfFile::slots_used_otherwise(std::vector<ElfAddr> slots) const {
  return find_other_uses(impl_->image, impl_->relocations, std::move(slots));
}

const std::vector<IrelativeSlot>& ElfFile::irelative_slots() const {
  if (!impl_->irelative_slots) impl_->irelative_slots = read_irelative_slots(impl_->relocations);
  return *impl_->irelative_slots;
}

bool ElfFile::defines_versions() const {
  return impl_->dynamic.value(DT_VERDEFNUM) != 0;
}

bool ElfFile::imports_any(std::span<const std::string_view> names, const ElfFile* definer) const {
  if (impl_->imports)
    return std::ranges::any_of(*impl_->imports, [&](const Import& import) {
      return std::ranges::find(names, import.name) != names.end();
    });
  return elf::imports_any(impl_->dynamic_symbols, impl_->relocations, names,
                          definer == nullptr ? nullptr : &definer->impl_->dynamic_symbols);
}

const std::vector<ElfFile::Import>& ElfFile::imports() const {
  if (!impl_->imports) impl_->imports = read_imports(impl_->dynamic_symbols, impl_->relocations);
  return *impl_->imports;
}

const std::vector<ElfRange>& ElfFile::frame_ranges() const {
  if (!impl_->frame_ranges) impl_->frame_ranges = read_frame_ranges(impl_->image);
  return *impl_->frame_ranges;
}

FrameArea ElfFile::eh_frame() const {
  return find_eh_frame(impl_->image);
}
FrameArea ElfFile::eh_frame_index() const {
  return find_frame_index(impl_->image);
}
FrameArea ElfFile::debug_frame() const {
  return find_debug_frame(impl_->image);
}

const std::vector<SdtNote>& ElfFile::sdt_notes() const {
  if (!impl_->sdt_notes) impl_->sdt_notes = read_sdt_notes(impl_->image);
  return *impl_->sdt_notes;
}

std::optional<ElfAddr> ElfFile::first_initializer() const {
  return find_first_initializer(impl_->image, impl_->dynamic, impl_->relocations);
}

}  // namespace rtrace::elf
