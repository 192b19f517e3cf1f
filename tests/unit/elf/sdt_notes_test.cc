#include "elf/fixtures.h"

namespace rtrace::elf::sdt_notes_test {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

const SdtNote* note_named(const ElfFile& file, std::string_view name) {
  for (const SdtNote& note : file.sdt_notes())
    if (note.name == name) return &note;
  return nullptr;
}

TEST(SdtNotes, AreReadWithTheirPlaceSemaphoreAndArguments) {
  auto file = open_fixture("marks.so");
  const SdtNote* begin = note_named(*file, "begin");
  const SdtNote* end = note_named(*file, "end");
  ASSERT_TRUE(begin != nullptr && end != nullptr);
  EXPECT_EQ(begin->provider, "fixture");
  EXPECT_EQ(begin->arguments, "-4@%edi 8@$5");
  EXPECT_EQ(begin->semaphore, file->find_symbol("seen"));
  EXPECT_EQ(end->semaphore, ElfAddr{});
  EXPECT_EQ(end->arguments, "");
  for (const SdtNote* note : {begin, end}) {
    ASSERT_EQ(file->bytes_at(note->address, 1).size(), 1U);
    EXPECT_EQ(file->bytes_at(note->address, 1)[0], std::byte{0x90}) << note->name;
  }
  EXPECT_LT(begin->address, end->address);
}

TEST(SdtNotes, ThatPointAnywhereElseAreLeftOutOrLoseTheirSemaphore) {
  auto file = open_fixture("marks.so");
  EXPECT_EQ(note_named(*file, "in_data"), nullptr);
  ASSERT_NE(note_named(*file, "semaphore_in_code"), nullptr);
  EXPECT_EQ(note_named(*file, "semaphore_in_code")->semaphore, ElfAddr{});
  EXPECT_THAT(file->warnings(), Contains(HasSubstr("fixture:in_data is not in code")));
  EXPECT_THAT(file->warnings(), Contains(HasSubstr("fixture:semaphore_in_code is not in data")));
}

TEST(SdtNotes, SurviveStripping) {
  EXPECT_EQ(open_fixture("marks.stripped.so")->sdt_notes().size(),
            open_fixture("marks.so")->sdt_notes().size());
}

// prelink(8) moves the object, .stapsdt.base with it, and leaves the notes as they are.
TEST(SdtNotes, FollowTheBaseThatWasMoved) {
  std::string bytes = read_whole(fixture("marks.so"));
  auto before = open_bytes(bytes);
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof header);
  constexpr uint64_t kMoved = 1;
  auto file = before;
  for (size_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    char* at = bytes.data() + header.e_shoff + i * sizeof section;
    std::memcpy(&section, at, sizeof section);
    // By its size and kind: the one byte that is loaded and read-only.
    if (section.sh_size != 1 || section.sh_type != SHT_PROGBITS) continue;
    section.sh_addr += kMoved;
    std::memcpy(at, &section, sizeof section);
  }
  file = open_bytes(bytes);
  ASSERT_TRUE(file != nullptr);
  EXPECT_EQ(note_named(*file, "end")->address, note_named(*before, "end")->address + kMoved);
}

TEST(SdtNotes, AreNoneWithoutSections) {
  EXPECT_THAT(open_without_sections(fixture("marks.so"))->sdt_notes(), IsEmpty());
  EXPECT_THAT(open_fixture("lazy")->sdt_notes(), IsEmpty());
}

// The file with each byte of the notes made into each of some values: nothing is read that is not there.
TEST(SdtNotes, OfAHostileFileAreBounded) {
  const std::string good = read_whole(fixture("marks.so"));
  const size_t owner = good.find("stapsdt\0", 0, 8);
  ASSERT_NE(owner, std::string::npos);
  const size_t start = owner - sizeof(Elf64_Nhdr);
  for (size_t at = start; at < start + 200; ++at)
    for (char value : {'\0', '\x01', '\x7f', '\xff'}) {
      std::string bytes = good;
      bytes[at] = value;
      auto file = open_bytes(bytes);
      ASSERT_TRUE(file != nullptr);
      for (const SdtNote& note : file->sdt_notes()) {
        EXPECT_FALSE(note.name.empty());
        EXPECT_EQ(file->bytes_at(note.address, 1).size(), 1U);
      }
    }
}

}  // namespace
}  // namespace rtrace::elf::sdt_notes_test
