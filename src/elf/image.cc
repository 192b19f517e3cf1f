#include "image.h"

#include <algorithm>
#include <cstring>

#include "rtrace/base/error.h"

namespace rtrace::elf {

Mapping begun(Mapping file) {
  constexpr uint64_t kBeginning = uint64_t{256} << 10;
  populate(clamped(file.bytes(), 0, kBeginning), Access::read);
  return file;
}

Image::Image(Mapping mapping) : mapping_(std::move(mapping)) {
  read_header();
  read_program_headers();
}

void Image::read_header() {
  Bytes bytes = file();
  if (bytes.size() < SELFMAG || std::memcmp(bytes.data(), ELFMAG, SELFMAG) != 0)
    throw Error("not an ELF file");
  auto identification = exactly(bytes, 0, EI_NIDENT);
  if (identification.empty()) throw Error("truncated: no file header");
  if (identification[EI_CLASS] == std::byte{ELFCLASS32}) throw Error("a 32-bit object");
  if (identification[EI_CLASS] != std::byte{ELFCLASS64}) throw Error("an object of unknown class");
  if (identification[EI_DATA] != std::byte{ELFDATA2LSB}) throw Error("a big-endian object");
  const auto header = load<Elf64_Ehdr>(bytes);
  if (!header) throw Error("truncated: no file header");
  header_ = *header;
  if (header_.e_machine != EM_X86_64)
    throw Error::make("an object for machine {}, not x86-64", header_.e_machine);
}

void Image::read_program_headers() {
  if (header_.e_phnum == 0) return;
  if (header_.e_phentsize != sizeof(Elf64_Phdr))
    throw Error::make("program headers of {} bytes each", header_.e_phentsize);
  // gABI, "ELF Header": what does not fit there stands in the first section's header.
  const bool elsewhere = header_.e_phnum == PN_XNUM && header_.e_shoff != 0;
  const auto first = elsewhere ? load<Elf64_Shdr>(file(), header_.e_shoff) : std::nullopt;
  const uint64_t count = first ? first->sh_info : header_.e_phnum;
  const Table<Elf64_Phdr> table(exactly(file(), header_.e_phoff, count * sizeof(Elf64_Phdr)));
  if (table.size() != count) throw Error("truncated: the program headers are not in the file");
  program_headers_.reserve(table.size());
  for (size_t i = 0; i < table.size(); ++i) program_headers_.push_back(table[i]);
  for (const Elf64_Phdr& header : program_headers_)
    if (header.p_type == PT_LOAD) add_segment(header);
  // The gABI asks for this order; lookups here depend on it.
  std::stable_sort(segments_.begin(), segments_.end(),
                   [](const Segment& a, const Segment& b) { return a.memory.begin < b.memory.begin; });
}

void Image::add_segment(const Elf64_Phdr& header) {
  if (header.p_memsz > UINT64_MAX - header.p_vaddr) return warn("a segment reaches beyond the address space");
  uint64_t file_size = clamped(file(), header.p_offset, std::min(header.p_filesz, header.p_memsz)).size();
  if (file_size < std::min(header.p_filesz, header.p_memsz))
    warn(fmt::format("truncated: the segment at {:#x} has {} of {} bytes", header.p_vaddr, file_size,
                     header.p_filesz));
  segments_.push_back({.memory = {{header.p_vaddr}, {header.p_vaddr + header.p_memsz}},
                       .offset = {header.p_offset},
                       .file_size = file_size,
                       .readable = (header.p_flags & PF_R) != 0,
                       .writable = (header.p_flags & PF_W) != 0,
                       .executable = (header.p_flags & PF_X) != 0});
}

const Elf64_Phdr* Image::program_header(uint32_t type) const {
  auto found = std::find_if(program_headers_.begin(), program_headers_.end(),
                            [&](const Elf64_Phdr& header) { return header.p_type == type; });
  return found == program_headers_.end() ? nullptr : &*found;
}

const Segment* Image::segment_of(ElfAddr address) const {
  auto after =
      std::upper_bound(segments_.begin(), segments_.end(), address,
                       [](ElfAddr wanted, const Segment& segment) { return wanted < segment.memory.begin; });
  if (after == segments_.begin()) return nullptr;
  const Segment& segment = *std::prev(after);
  return segment.memory.contains(address) ? &segment : nullptr;
}

bool Image::executable(ElfAddr address) const {
  const Segment* segment = segment_of(address);
  return segment != nullptr && segment->executable;
}

Bytes Image::at(ElfAddr address, uint64_t size) const {
  const Segment* segment = segment_of(address);
  if (segment == nullptr) return {};
  Bytes bytes = clamped(file(), segment->offset.value, segment->file_size);
  return clamped(bytes, address - segment->memory.begin, size);
}

const Sections& Image::sections() const {
  if (!sections_) sections_ = read_sections();
  return *sections_;
}

Sections Image::read_sections() const {
  if (header_.e_shoff == 0 || header_.e_shentsize != sizeof(Elf64_Shdr)) return {};
  const auto first = load<Elf64_Shdr>(file(), header_.e_shoff);
  const uint64_t count = !first ? 0 : header_.e_shnum != 0 ? header_.e_shnum : first->sh_size;
  const bool fits = count <= file().size() / sizeof(Elf64_Shdr);
  const Table<Elf64_Shdr> table(fits ? exactly(file(), header_.e_shoff, count * sizeof(Elf64_Shdr))
                                     : Bytes{});
  if (table.size() == 0) {
    warn("truncated: the section headers are not in the file");
    return {};
  }
  const uint64_t named_by = header_.e_shstrndx == SHN_XINDEX ? first->sh_link : header_.e_shstrndx;
  const auto of_names = table.at(named_by);
  const StringTable names(of_names && of_names->sh_type == SHT_STRTAB
                              ? exactly(file(), of_names->sh_offset, of_names->sh_size)
                              : Bytes{});
  return {table, names};
}

std::optional<Section> Image::section(std::string_view name) const {
  for (const Section& section : sections())
    if (section.name() == name) return section;
  return std::nullopt;
}

std::optional<Section> Image::section_of_type(uint32_t type) const {
  for (const Section& section : sections())
    if (section.header.sh_type == type) return section;
  return std::nullopt;
}

std::optional<Section> Image::section_of(ElfAddr address) const {
  for (const Section& section : sections())
    if ((section.header.sh_flags & SHF_ALLOC) != 0 && address >= section.memory().begin &&
        address - section.memory().begin < section.header.sh_size)
      return section;
  return std::nullopt;
}

Bytes Image::contents(const Section& section) const {
  if (section.header.sh_type == SHT_NOBITS) return {};
  return exactly(file(), section.header.sh_offset, section.header.sh_size);
}

const std::optional<Image::BuildId>& Image::build_id() const {
  if (!build_id_) build_id_ = read_build_id();
  return *build_id_;
}

std::optional<Image::BuildId> Image::read_build_id() const {
  for (const Elf64_Phdr& header : program_headers_) {
    if (header.p_type != PT_NOTE) continue;
    if (auto found = build_id_in(header.p_offset, header.p_filesz, header.p_align)) return found;
  }
  // A file made by `objcopy --only-keep-debug` keeps the note's section, while its segments point at nothing.
  for (const Section& section : sections()) {
    if (section.header.sh_type != SHT_NOTE) continue;
    if (auto found =
            build_id_in(section.header.sh_offset, section.header.sh_size, section.header.sh_addralign))
      return found;
  }
  return std::nullopt;
}

std::optional<Image::BuildId> Image::build_id_in(uint64_t offset, uint64_t size, uint64_t alignment) const {
  // gABI: 4-byte alignment; .note.gnu.property alone has 8.
  const uint64_t word = alignment == 8 ? 8 : 4;
  const auto padded = [&](uint64_t length) { return (length + word - 1) / word * word; };
  const Bytes notes = exactly(file(), offset, size);
  for (uint64_t at = 0; const auto note = load<Elf64_Nhdr>(notes, at);) {
    const uint64_t name = at + sizeof *note, description = padded(name + note->n_namesz);
    const Bytes id = exactly(notes, description, note->n_descsz);
    const Bytes owner = exactly(notes, name, sizeof ELF_NOTE_GNU);
    const bool gnu = note->n_namesz == sizeof ELF_NOTE_GNU && !owner.empty() &&
                     std::memcmp(owner.data(), ELF_NOTE_GNU, sizeof ELF_NOTE_GNU) == 0;
    if (note->n_type == NT_GNU_BUILD_ID && gnu && !id.empty()) return BuildId{id, {offset + description}};
    at = padded(description + note->n_descsz);
  }
  return std::nullopt;
}

}  // namespace rtrace::elf
