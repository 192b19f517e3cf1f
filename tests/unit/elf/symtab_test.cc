#include "../../../src/elf/symtab.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "rtrace/base/unique_fd.h"

namespace rtrace::elf::symtab_test {
namespace {

constexpr std::string_view kNames("\0present\0", 9);

// An object of nothing but symbols, so many, all of which the file has as a hole but the last: `present`.
class Sparse {
 public:
  explicit Sparse(size_t symbols) : fd_(memfd_create("sparse", MFD_CLOEXEC)) {
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_machine = EM_X86_64;
    header.e_shoff = sizeof header;
    header.e_shentsize = sizeof(Elf64_Shdr);
    std::array<Elf64_Shdr, 3> sections{};
    header.e_shnum = sections.size();
    const uint64_t names = sizeof header + sizeof sections;
    sections[1].sh_type = SHT_SYMTAB;
    sections[1].sh_offset = uint64_t{1} << 16;
    sections[1].sh_size = symbols * sizeof(Elf64_Sym);
    sections[1].sh_link = 2;
    sections[2].sh_type = SHT_STRTAB;
    sections[2].sh_offset = names;
    sections[2].sh_size = kNames.size();
    Elf64_Sym last{};
    last.st_name = 1;
    last.st_shndx = 1;
    last.st_value = 0x1234;
    write(0, &header, sizeof header);
    write(header.e_shoff, sections.data(), sizeof sections);
    write(names, kNames.data(), kNames.size());
    write(sections[1].sh_offset + sections[1].sh_size - sizeof last, &last, sizeof last);
  }

  int fd() const { return fd_.get(); }
  // What reading a hole of such a file allocates counts.
  int64_t bytes_in_use() const {
    struct stat status {};
    EXPECT_EQ(fstat(fd(), &status), 0);
    return status.st_blocks * 512;
  }

 private:
  void write(uint64_t at, const void* bytes, size_t size) const {
    EXPECT_EQ(pwrite(fd(), bytes, size, static_cast<off_t>(at)), static_cast<ssize_t>(size));
  }
  UniqueFd fd_;
};

TEST(Symtab, SymbolsAreReadOnlyForANameThatTheTableOfNamesHas) {
  const Sparse file(1'000'000);
  const Image image(Mapping::of_file(file.fd()));
  const auto symtab = Symtab::read(image, Symbol::Table::symtab);
  ASSERT_TRUE(symtab);
  const int64_t before = file.bytes_in_use();
  EXPECT_EQ(symtab->find_any("absent"), std::nullopt);
  EXPECT_EQ(file.bytes_in_use(), before);
  EXPECT_EQ(symtab->find_any("present"), ElfAddr{0x1234});
  EXPECT_GT(file.bytes_in_use(), before);
}

}  // namespace
}  // namespace rtrace::elf::symtab_test
