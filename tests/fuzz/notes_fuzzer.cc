// The input as the notes of an otherwise sound object. Its first byte says where they stand: in a PT_NOTE
// segment or an SHT_NOTE section, and with which alignment; and whether that section is SDT's.
#include <elf.h>

#include "fuzzing.h"
#include "rtrace/base/error.h"
#include "rtrace/elf/elf_file.h"

namespace {

struct Headers {
  Elf64_Ehdr file{};
  Elf64_Phdr load{}, note{};
  Elf64_Shdr none{}, notes{}, names{}, base{};
  char text[40] = "\0.note.stapsdt\0.stapsdt.base";
};

Headers headers_for(size_t size, uint8_t choice) {
  Headers made;
  std::memcpy(made.file.e_ident, ELFMAG, SELFMAG);
  made.file.e_ident[EI_CLASS] = ELFCLASS64;
  made.file.e_ident[EI_DATA] = ELFDATA2LSB;
  made.file.e_ident[EI_VERSION] = EV_CURRENT;
  made.file.e_type = ET_DYN;
  made.file.e_machine = EM_X86_64;
  made.file.e_version = EV_CURRENT;
  made.file.e_ehsize = sizeof made.file;
  made.file.e_phoff = offsetof(Headers, load);
  made.file.e_phentsize = sizeof made.load;
  made.file.e_phnum = 2;
  made.file.e_shoff = offsetof(Headers, none);
  made.file.e_shentsize = sizeof made.none;
  made.file.e_shnum = 4;
  made.file.e_shstrndx = 2;
  made.load.p_type = PT_LOAD;
  made.load.p_flags = (choice & 4) != 0 ? PF_R | PF_X : PF_R | PF_W;
  made.load.p_filesz = made.load.p_memsz = sizeof made + size;
  const uint64_t alignment = (choice & 2) != 0 ? 8 : 4;
  made.note.p_type = (choice & 1) != 0 ? PT_NOTE : PT_NULL;
  made.note.p_offset = made.note.p_vaddr = sizeof made;
  made.note.p_filesz = made.note.p_memsz = size;
  made.note.p_align = alignment;
  made.notes.sh_type = (choice & 1) != 0 ? SHT_NULL : SHT_NOTE;
  made.notes.sh_offset = made.notes.sh_addr = sizeof made;
  made.notes.sh_size = size;
  made.notes.sh_addralign = alignment;
  made.notes.sh_name = (choice & 8) != 0 ? 1 : 0;
  made.names.sh_type = SHT_STRTAB;
  made.names.sh_offset = offsetof(Headers, text);
  made.names.sh_size = sizeof made.text;
  made.base.sh_type = SHT_PROGBITS;
  made.base.sh_name = (choice & 16) != 0 ? 15 : 0;
  made.base.sh_addr = made.base.sh_size = 1;
  return made;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rtrace;
  fuzz::Input input(data, size);
  const auto choice = input.take<uint8_t>();
  const Headers headers = headers_for(input.rest().size(), choice);
  std::string bytes(reinterpret_cast<const char*>(&headers), sizeof headers);
  bytes += input.rest();
  auto file = elf::ElfFile::open(fuzz::file_of(bytes), "notes");
  for (const elf::SdtNote& note : file->sdt_notes()) {
    fuzz::must_hold(!note.provider.empty() && !note.name.empty(), "a note has names");
    fuzz::must_hold(file->bytes_at(note.address, 1).size() == 1, "{} is in code", note.address);
    fuzz::must_hold(!note.semaphore, "there is no data for a semaphore");
  }
  const auto id = file->build_id();
  const auto note = file->build_id_note();
  fuzz::must_hold(id.size() <= input.rest().size(), "a build-id of {} bytes", id.size());
  fuzz::must_hold(id.empty() || note.has_value(), "all of the file is mapped, and the note with it");
  if (!note) return 0;
  const auto mapped = file->bytes_at(*note, id.size());
  fuzz::must_hold(std::equal(id.begin(), id.end(), mapped.begin(), mapped.end()), "the note at {}", *note);
  fuzz::must_hold(note->value >= sizeof headers, "the note at {} is not among the notes", *note);
  return 0;
}
