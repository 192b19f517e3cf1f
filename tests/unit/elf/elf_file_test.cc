#include <gtest/gtest.h>

#include "elf/fixtures.h"

namespace rtrace::elf::elf_file_test {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

std::string refusal(const std::string& bytes) {
  UniqueFd fd(memfd_create("fixture", MFD_CLOEXEC));
  EXPECT_EQ(::write(fd.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  try {
    ElfFile::open(std::move(fd), "the-path");
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Opening, RefusesWhatIsNoX8664ObjectAndSaysWhy) {
  std::string good = read_whole(fixture("lazy"));
  auto with = [&](size_t at, char value) {
    std::string bytes = good;
    bytes[at] = value;
    return bytes;
  };
  struct Row {
    std::string bytes;
    const char* reason;
  };
  for (const Row& row :
       {Row{"", "not an ELF file"}, Row{"#!/bin/sh\n", "not an ELF file"},
        Row{"\x7f"
            "ELF",
            "truncated"},
        Row{good.substr(0, 40), "truncated"}, Row{good.substr(0, 100), "truncated: the program headers"},
        Row{with(EI_CLASS, ELFCLASS32), "a 32-bit object"}, Row{with(EI_DATA, ELFDATA2MSB), "big-endian"},
        Row{with(18, static_cast<char>(EM_AARCH64)), "machine"}, Row{with(16, ET_REL), "neither"}}) {
    EXPECT_THAT(refusal(row.bytes), HasSubstr(row.reason));
    EXPECT_THAT(refusal(row.bytes), HasSubstr("the-path"));
  }
  EXPECT_THROW(ElfFile::open("/nonexistent/file"), Error);
  EXPECT_THROW(ElfFile::open("/dev/null"), Error);
}

TEST(Opening, ReadsHowTheObjectIsLoaded) {
  auto pie = open_fixture("lazy"), fixed = open_fixture("no_pie"), library = open_fixture("library.so");
  EXPECT_EQ(pie->type(), FileType::shared);
  EXPECT_EQ(fixed->type(), FileType::executable);
  EXPECT_EQ(pie->interpreter(), "/lib64/ld-linux-x86-64.so.2");
  EXPECT_EQ(library->interpreter(), "");
  EXPECT_EQ(library->soname(), "libfixture.so.1");
  EXPECT_THAT(pie->needed(), Contains("libc.so.6"));
  EXPECT_TRUE(pie->dynamic().has_value());
  EXPECT_FALSE(open_fixture("static")->dynamic().has_value());
  EXPECT_EQ(pie->program_headers().value, 64u);
  EXPECT_EQ(library->program_headers().value, 64u) << "no PT_PHDR in a library";
  EXPECT_THAT(pie->warnings(), IsEmpty());
}

TEST(BuildId, LiesWhereTheNoteIsMapped) {
  for (const auto& file : {open_fixture("library.so"), open_without_sections(fixture("library.so"))}) {
    ASSERT_THAT(file->build_id(), SizeIs(20));
    ASSERT_TRUE(file->build_id_note().has_value());
    EXPECT_TRUE(std::ranges::equal(file->bytes_at(*file->build_id_note(), 20), file->build_id()));
  }
  EXPECT_THAT(open_fixture("without_id")->build_id(), IsEmpty());
}

TEST(FirstInitializer, IsDtInitElseTheFirstOfTheArray) {
  auto library = open_fixture("library.so");  // linked without crti.o: no DT_INIT
  ASSERT_TRUE(library->first_initializer().has_value());
  EXPECT_EQ(*library->first_initializer(), library->find_function("initialise").at(0).address);
  auto program = open_fixture("lazy");
  EXPECT_EQ(program->first_initializer(), program->find_function("_init").at(0).address);
}

TEST(FrameRanges, AreTheFunctionsAndNeedNoSectionHeaders) {
  auto file = open_fixture("lazy");
  auto main_function = file->find_function("main").at(0);
  ElfRange range{main_function.address, main_function.address + main_function.size};
  EXPECT_THAT(file->frame_ranges(), Contains(range));
  EXPECT_EQ(open_without_sections(fixture("lazy"))->frame_ranges(), file->frame_ranges());
  EXPECT_TRUE(std::ranges::is_sorted(file->frame_ranges()));
  EXPECT_THAT(open_fixture("static")->frame_ranges(), Not(IsEmpty()));
}

TEST(BytesAt, EndWhereTheFilesPartOfASegmentEnds) {
  auto file = open_fixture("lazy");
  const Segment& data = file->segments().back();
  ASSERT_GT(data.memory.size(), data.file_size) << "the fixture has a .bss";
  EXPECT_THAT(file->bytes_at(data.memory.begin + (data.file_size - 4), 100), SizeIs(4));
  EXPECT_THAT(file->bytes_at(data.memory.begin + data.file_size, 1), IsEmpty());
  EXPECT_THAT(file->bytes_at({~uint64_t{0}}, 16), IsEmpty());
}

// Asks everything; what it answers is of no interest, only that it does.
size_t ask_everything(const ElfFile& file) {
  size_t answers =
      file.needed().size() + file.soname().size() + file.interpreter().size() + file.build_id().size();
  answers += file.functions().size() + file.call_slots().size() + file.irelative_slots().size() +
             file.imports().size();
  answers += file.frame_ranges().size() + file.find_function("main").size() + file.find_clones("work").size();
  answers += file.find_exported("plain").has_value() + file.find_exported("versioned", "FIX_1").has_value();
  answers += file.function_at(file.entry()).has_value() + file.find_symbol("data_object").has_value();
  answers += file.first_initializer().has_value() + file.build_id_note().has_value() +
             file.program_headers().value % 2;
  for (const Symbol& symbol : file.functions()) answers += symbol.name.size() + symbol.version.size();
  for (const CallSlot& slot : file.call_slots())
    answers += slot.name.size() + slot.version.size() + slot.tail_jumps.size();
  return answers;
}

TEST(HostileFiles, TruncatedAnywhereAnswerOrAreRefused) {
  for (const char* name : {"library.so", "no_plt", "ibt_now"}) {
    std::string bytes = read_whole(fixture(name));
    size_t opened = 0;
    for (size_t size = 0; size < bytes.size(); size += size < 1024 ? 7 : 131) {
      auto file = open_bytes(std::string_view(bytes).substr(0, size));
      if (file == nullptr) continue;
      ++opened;
      ask_everything(*file);
      EXPECT_THAT(file->warnings(), Not(IsEmpty())) << name << " cut to " << size;
    }
    EXPECT_GT(opened, 0u);
  }
}

TEST(HostileFiles, WithFlippedBitsAnswerOrAreRefused) {
  for (const char* name : {"library.so", "no_plt", "sysv_hash"}) {
    const std::string good = read_whole(fixture(name));
    uint64_t state = 88172645463325252;  // xorshift64, Marsaglia 2003: the same files in every run
    auto random = [&] {
      state ^= state << 13;
      state ^= state >> 7;
      return state ^= state << 17;
    };
    size_t opened = 0;
    for (int round = 0; round < 400; ++round) {
      std::string bytes = good;
      // Half of the flips where the structure is: headers, dynamic symbols, hashes, relocations come first in
      // a file.
      for (int flip = 0; flip < 20; ++flip) {
        size_t at = random() % (flip % 2 == 0 ? bytes.size() : std::min<size_t>(bytes.size(), 0xa00));
        if (at >= EI_NIDENT) bytes[at] = static_cast<char>(bytes[at] ^ (1 << (random() % 8)));
      }
      auto file = open_bytes(bytes);
      if (file == nullptr) continue;
      ++opened;
      ask_everything(*file);
    }
    EXPECT_GT(opened, 20u) << name;
  }
}

// Every 8-byte word of the dynamic section, in turn, becomes an extreme number.
TEST(HostileFiles, WithWildDynamicTagsAnswer) {
  const std::string good = read_whole(fixture("library.so"));
  Elf64_Ehdr header;
  std::memcpy(&header, good.data(), sizeof header);
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, good.data() + header.e_phoff + i * sizeof segment, sizeof segment);
    if (segment.p_type != PT_DYNAMIC) continue;
    for (uint64_t at = segment.p_offset; at < segment.p_offset + segment.p_filesz; at += 8) {
      for (uint64_t wild :
           {uint64_t{0}, uint64_t{1}, uint64_t{0x7fffffff}, ~uint64_t{0}, ~uint64_t{7}, uint64_t{1} << 63}) {
        std::string bytes = good;
        std::memcpy(bytes.data() + at, &wild, sizeof wild);
        auto file = open_bytes(bytes);
        ASSERT_NE(file, nullptr);
        EXPECT_GT(ask_everything(*file), 0u);
      }
    }
  }
}

// Section headers at an odd offset, as a hostile file has them and no linker makes them.
TEST(HostileFiles, WithTablesAtOddOffsetsAreReadAllTheSame) {
  const std::string good = read_whole(fixture("library.so"));
  Elf64_Ehdr header;
  std::memcpy(&header, good.data(), sizeof header);
  const std::string sections = good.substr(header.e_shoff, size_t{header.e_shnum} * sizeof(Elf64_Shdr));
  std::string odd = good;
  if (odd.size() % 2 == 0) odd += '\0';
  header.e_shoff = odd.size();
  odd += sections;
  std::memcpy(odd.data(), &header, sizeof header);
  auto file = open_bytes(odd);
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(file->functions().size(), open_bytes(good)->functions().size());
}

// gABI, "ELF Header": counts that do not fit there stand in the first section's header.
TEST(HostileFiles, WithCountsInTheFirstSectionAreReadAllTheSame) {
  const std::string good = read_whole(fixture("library.so"));
  Elf64_Ehdr header;
  std::memcpy(&header, good.data(), sizeof header);
  Elf64_Shdr first{};
  first.sh_size = header.e_shnum;
  first.sh_link = header.e_shstrndx;
  first.sh_info = header.e_phnum;
  const uint64_t at = header.e_shoff;
  header.e_shnum = 0;
  header.e_shstrndx = SHN_XINDEX;
  header.e_phnum = PN_XNUM;
  std::string large = good;
  std::memcpy(large.data(), &header, sizeof header);
  std::memcpy(large.data() + at, &first, sizeof first);
  const auto file = open_bytes(large), same = open_bytes(good);
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(file->segments().size(), same->segments().size());
  EXPECT_EQ(file->functions().size(), same->functions().size());
  EXPECT_EQ(file->call_slots().size(), same->call_slots().size());
  first.sh_size = ~uint64_t{0};
  std::memcpy(large.data() + at, &first, sizeof first);
  const auto broken = open_bytes(large);
  ASSERT_NE(broken, nullptr);
  EXPECT_THAT(broken->functions(), testing::Not(testing::IsEmpty()));
  EXPECT_THAT(broken->warnings(), testing::Contains(testing::HasSubstr("section headers")));
}

}  // namespace
}  // namespace rtrace::elf::elf_file_test
