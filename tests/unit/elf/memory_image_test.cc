#include <gtest/gtest.h>

#include "elf/fixtures.h"

namespace rtrace::elf::memory_image_test {
namespace {

using testing::HasSubstr;

constexpr uint64_t kPage = 4096;

// What the kernel and glibc make of an object: segments at the bias, the dynamic section's pointers and the
// words of RELATIVE relocations with the bias in them.
class MappedObject : public BufferMemory {
 public:
  MappedObject(const std::string& path, LoadBias bias) : bias_(bias), bytes_(read_whole(path)) {
    auto file = ElfFile::open(path);
    for (const Segment& segment : file->segments()) map(segment);
  }
  VirtAddr header() const { return header_; }

  // The dynamic linker has been here.
  void relocate(const ElfFile& file) {
    for (uint64_t at = file.dynamic()->value;; at += sizeof(Elf64_Dyn)) {
      auto entry = read_value<Elf64_Dyn>(ElfAddr{at} + bias_);
      ASSERT_TRUE(entry);
      if (entry->d_tag == DT_NULL) break;
      for (int64_t tag :
           {DT_STRTAB, DT_SYMTAB, DT_RELA, DT_JMPREL, DT_GNU_HASH, DT_HASH, DT_VERSYM, DT_PLTGOT})
        if (entry->d_tag == tag) entry->d_un.d_ptr += bias_.value;
      poke(ElfAddr{at} + bias_, std::as_bytes(std::span(&*entry, 1)));
    }
    for (const CallSlot& slot : file.call_slots()) {
      const uint64_t bound = 0x7f0000001000;
      poke(slot.slot + bias_, std::as_bytes(std::span(&bound, 1)));
    }
  }
  void poke(VirtAddr address, std::span<const std::byte> bytes) {
    for (auto& [begin, piece] : pieces_) {
      if (address < begin || address - begin + bytes.size() > piece.size()) continue;
      std::copy(bytes.begin(), bytes.end(), piece.begin() + static_cast<ptrdiff_t>(address - begin));
    }
  }
  size_t read(VirtAddr address, std::span<std::byte> out) const override {
    for (const auto& [begin, piece] : pieces_) {
      if (address < begin || address - begin >= piece.size()) continue;
      const size_t got = std::min<size_t>(out.size(), piece.size() - (address - begin));
      std::memcpy(out.data(), piece.data() + (address - begin), got);
      return got;
    }
    return 0;
  }

 private:
  // Whole pages, as mmap(2) does it.
  void map(const Segment& segment) {
    const uint64_t before = segment.memory.begin.value % kPage;
    const uint64_t size = (before + segment.file_size + kPage - 1) / kPage * kPage;
    std::vector<std::byte> piece(size);
    const uint64_t offset = segment.offset.value - before;
    std::memcpy(piece.data(), bytes_.data() + offset, std::min<size_t>(size, bytes_.size() - offset));
    const VirtAddr begin = segment.memory.begin - before + bias_;
    if (segment.offset.value < kPage && !header_) header_ = begin;
    pieces_[begin] = std::move(piece);
  }

  LoadBias bias_;
  std::string bytes_;
  VirtAddr header_;
  std::map<VirtAddr, std::vector<std::byte>> pieces_;
};

constexpr LoadBias kBias{0x7f1234560000};

struct Both {
  std::shared_ptr<const ElfFile> file, mapped;
  LoadBias bias;
};

Both both(const std::string& name, bool relocated) {
  auto file = open_fixture(name);
  const LoadBias bias = file->type() == FileType::executable ? LoadBias{} : kBias;
  MappedObject memory(fixture(name), bias);
  if (relocated) memory.relocate(*file);
  auto mapped = ElfFile::from_memory(memory, memory.header(), "/lib/" + name);
  return {file, mapped.file, mapped.bias};
}

class FromMemory : public testing::TestWithParam<std::tuple<const char*, bool>> {};

TEST_P(FromMemory, ExportedFunctionsAndCallSlotsAreThoseOfTheFile) {
  auto [name, relocated] = GetParam();
  auto [file, mapped, bias] = both(name, relocated);
  EXPECT_TRUE(mapped->is_from_memory());
  EXPECT_EQ(mapped->stripped(), true);
  EXPECT_EQ(bias, file->type() == FileType::executable ? LoadBias{} : kBias);
  EXPECT_EQ(mapped->soname(), file->soname());
  EXPECT_EQ(mapped->needed(), file->needed());
  EXPECT_EQ(mapped->dynamic(), file->dynamic());
  EXPECT_EQ(mapped->first_initializer(), file->first_initializer());
  EXPECT_TRUE(std::ranges::equal(mapped->build_id(), file->build_id()));
  EXPECT_EQ(mapped->irelative_slots().size(), file->irelative_slots().size());
  EXPECT_EQ(mapped->frame_ranges(), file->frame_ranges());
  std::vector<std::string_view> exported, found;
  for (const Symbol& symbol : file->functions())
    if (symbol.table == Symbol::Table::dynsym) exported.push_back(symbol.name);
  for (const Symbol& symbol : mapped->functions()) found.push_back(symbol.name);
  EXPECT_EQ(found, exported);
  ASSERT_EQ(mapped->call_slots().size(), file->call_slots().size());
  EXPECT_FALSE(file->call_slots().empty());
  for (size_t i = 0; i < file->call_slots().size(); ++i) {
    const CallSlot &wanted = file->call_slots()[i], &got = mapped->call_slots()[i];
    EXPECT_EQ(got.name, wanted.name);
    EXPECT_EQ(got.version, wanted.version);
    EXPECT_EQ(got.slot, wanted.slot);
    EXPECT_EQ(got.stub, wanted.stub) << wanted.name;
    EXPECT_EQ(got.tail_jumps, wanted.tail_jumps) << wanted.name;
  }
}

INSTANTIATE_TEST_SUITE_P(EveryLink, FromMemory,
                         testing::Combine(testing::Values("lazy", "now", "ibt_lazy", "ibt_now", "no_plt",
                                                          "no_pie", "sysv_hash", "library.so"),
                                          testing::Bool()));

std::string refusal(const Memory& memory, VirtAddr at) {
  try {
    ElfFile::from_memory(memory, at, "the-path");
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(MemoryImage, WhatIsNoHeaderIsRefusedWithTheReason) {
  BufferMemory nothing;
  EXPECT_THAT(refusal(nothing, VirtAddr{0x1000}), HasSubstr("no ELF header can be read"));
  BufferMemory text;
  text.add(VirtAddr{0x1000}, std::string(64, 'x'));
  EXPECT_THAT(refusal(text, VirtAddr{0x1000}), HasSubstr("the-path: there is no ELF header"));
}

// Program headers "before" the file's begin, where something readable lies.
TEST(MemoryImage, AnOffsetThatWrapsAroundIsRefused) {
  MappedObject object(fixture("library.so"), kBias);
  std::vector<std::byte> pages(2 * kPage);
  object.read(object.header(), std::span(pages).subspan(kPage));
  Elf64_Ehdr header;
  std::memcpy(&header, pages.data() + kPage, sizeof header);
  std::memcpy(pages.data(), pages.data() + kPage + header.e_phoff, header.e_phnum * sizeof(Elf64_Phdr));
  header.e_phoff = -uint64_t{kPage};
  std::memcpy(pages.data() + kPage, &header, sizeof header);
  BufferMemory memory;
  memory.add(object.header() - kPage, pages);
  EXPECT_THAT(refusal(memory, object.header()), HasSubstr("no usable program headers"));
}

// The header decides how much is read and where it is put: none of these may crash, or take long.
TEST(MemoryImage, HostileProgramHeadersAreRefusedOrReadInBounds) {
  for (uint64_t evil : {uint64_t{0}, uint64_t{1}, uint64_t{4095}, uint64_t{1} << 31, uint64_t{1} << 40,
                        UINT64_MAX, UINT64_MAX - 4095}) {
    for (size_t header = 0; header < 12; ++header) {
      for (size_t field : {offsetof(Elf64_Phdr, p_offset), offsetof(Elf64_Phdr, p_vaddr),
                           offsetof(Elf64_Phdr, p_filesz), offsetof(Elf64_Phdr, p_memsz)}) {
        MappedObject memory(fixture("library.so"), kBias);
        memory.poke(memory.header() + sizeof(Elf64_Ehdr) + header * sizeof(Elf64_Phdr) + field,
                    std::as_bytes(std::span(&evil, 1)));
        try {
          auto mapped = ElfFile::from_memory(memory, memory.header(), "x").file;
          (void)mapped->functions();
          (void)mapped->call_slots();
          (void)mapped->frame_ranges();
        } catch (const Error&) {
        }
      }
    }
  }
}

}  // namespace
}  // namespace rtrace::elf::memory_image_test
