#include "rtrace/mech/remains.h"

#include <gmock/gmock.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>

#include "rtrace/agent/recorder.h"
#include "rtrace/arch/jump.h"
#include "rtrace/arch/placement.h"
#include "rtrace/base/unique_fd.h"
#include "rtrace/mech/wrapper_stub.h"
#include "rtrace/tracee/remote_call.h"

namespace rtrace::mech::remains_test {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

constexpr size_t kBlobPages = agent::kBlobRoom / arch::kPageSize;

// Anonymous pages of this very process, which stand for a tracee's.
class Pages {
 public:
  explicit Pages(size_t count, uint64_t near = 0) : size_(count * arch::kPageSize) {
    base_ = static_cast<std::byte*>(mmap(reinterpret_cast<void*>(near), size_, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  }
  ~Pages() { munmap(base_, size_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  VirtAddr at(size_t page) const { return {reinterpret_cast<uint64_t>(base_) + page * arch::kPageSize}; }
  void header(size_t page, agent::MappingKind kind, uint64_t size) {
    agent::MappingHeader header{{}, agent::kAbiVersion, kind, size, 7};
    std::memcpy(header.magic, agent::kMappingMagic, sizeof header.magic);
    auto* at = base_ + page * arch::kPageSize;
    if (kind == agent::kBlobMapping)
      std::memcpy(at, rtrace_blob_begin, static_cast<size_t>(rtrace_blob_end - rtrace_blob_begin));
    std::memcpy(at, &header, sizeof header);
    if (kind != agent::kBlobMapping) return;
    as<agent::Blob>(page)->frame_begin = this->at(page).value;
    as<agent::Blob>(page)->frame_end = this->at(page).value + size;
  }
  template <typename T>
  T* as(size_t page) {
    return reinterpret_cast<T*>(base_ + page * arch::kPageSize);
  }
  Remains find() const {
    // As the kernel shows a mapping one page of which has advice of its own.
    tracee::MapsEntry entry, rest;
    entry.range = {at(0), at(1)};
    rest.range = {at(1), at(0) + size_};
    entry.readable = rest.readable = true;
    tracee::MapsEntry code;
    code.range = {{0x1000}, {0x3000}};
    code.executable = true;
    code.inode = 1;
    tracee::MapsEntry data = code;
    data.range = {{0x8000}, {0x9000}};
    data.executable = false;
    return find_remains(tracee::ProcessMemory(getpid()), {code, data, entry, rest});
  }

 private:
  size_t size_;
  std::byte* base_;
};

TEST(Remains, OfAProcessThatWasNeverTracedAreNone) {
  Pages pages(4);
  EXPECT_TRUE(pages.find().empty());
}

TEST(Remains, AreFoundBehindForeignPagesThatTheKernelHasJoinedWithThem) {
  Pages pages(6);
  pages.header(2, agent::kCopiesMapping, 2 * arch::kPageSize);
  pages.header(4, agent::kCopiesMapping, arch::kPageSize);
  const Remains remains = pages.find();
  ASSERT_THAT(remains.pages, SizeIs(2));
  EXPECT_EQ(remains.pages[0].range, (Range{pages.at(2), pages.at(4)}));
  EXPECT_EQ(remains.pages[1].range, (Range{pages.at(4), pages.at(5)}));
  EXPECT_EQ(remains.pages[1].session, 7u);
}

TEST(Remains, TellWhatBelongsWhereEachSiteStands) {
  Pages pages(kBlobPages + 1);
  pages.header(0, agent::kBlobMapping, agent::kBlobRoom);
  pages.header(kBlobPages, agent::kTableMapping, arch::kPageSize);
  pages.as<agent::Blob>(0)->table = pages.at(kBlobPages).value;
  auto* table = pages.as<agent::SiteTable>(kBlobPages);
  table->slots = 128;
  table->entries[3] = {0x1000, 0x2000 | uint64_t{0x90} << 56};
  table->entries[9] = {0x2000, 0};                               // removed
  table->entries[10] = {0x5000, 0x2000 | uint64_t{0x90} << 56};  // where no code is
  const Remains remains = pages.find();
  ASSERT_THAT(remains.bytes, SizeIs(1));
  EXPECT_EQ(remains.bytes[0].address, VirtAddr{0x1000});
  EXPECT_EQ(remains.bytes[0].original, std::vector{std::byte{0x90}});
  EXPECT_EQ(remains.bytes[0].written, std::vector{std::byte{0xcc}});
}

// A blob with one site, and its table of 128.
void note_site(Pages& pages, size_t page, uint64_t site) {
  pages.header(page, agent::kBlobMapping, agent::kBlobRoom);
  pages.header(page + kBlobPages, agent::kTableMapping, arch::kPageSize);
  pages.as<agent::Blob>(page)->table = pages.at(page + kBlobPages).value;
  auto* table = pages.as<agent::SiteTable>(page + kBlobPages);
  table->slots = 128;
  table->entries[0] = {site, 0x2000 | uint64_t{0x90} << 56};
}

TEST(Remains, OfAnyNumberOfTracersAreFound) {
  constexpr size_t kTracers = 40;
  Pages pages(kTracers * (kBlobPages + 1));
  for (size_t i = 0; i < kTracers; ++i) note_site(pages, i * (kBlobPages + 1), 0x1000 + i);
  const Remains remains = pages.find();
  EXPECT_THAT(remains.blobs, SizeIs(kTracers));
  EXPECT_THAT(remains.bytes, SizeIs(kTracers));
}

TEST(Remains, WhoseSitesAreForgottenTellNothingOfWhatMayBeThereLater) {
  Pages pages(2 * (kBlobPages + 1));
  note_site(pages, 0, 0x1000);
  note_site(pages, kBlobPages + 1, 0x1001);
  const Remains remains = pages.find();
  ASSERT_THAT(remains.bytes, SizeIs(2));
  forget_sites(tracee::ProcessMemory(getpid()), remains);
  EXPECT_THAT(pages.find().bytes, IsEmpty());
  EXPECT_THAT(pages.find().blobs, SizeIs(2));
}

TEST(Remains, AreKnownByTheirCodeWhereverTheQuestionsInt3Stands) {
  Pages pages(kBlobPages);
  pages.header(0, agent::kBlobMapping, agent::kBlobRoom);
  const auto code = [&](uint64_t at) -> std::byte& { return pages.as<std::byte>(0)[at]; };
  code(pages.as<agent::Blob>(0)->ask) = std::byte{0xcc};
  EXPECT_THAT(pages.find().blobs, SizeIs(1));
  code(pages.as<agent::Blob>(0)->bridge) = std::byte{0xcc};
  EXPECT_THAT(pages.find().blobs, IsEmpty());
}

// A recorder with one jump to a page of wrappers, in the mapping that begins at page 0.
void note_jump(Pages& pages, VirtAddr at, VirtAddr to) {
  pages.header(0, agent::kControlMapping, 4 * arch::kPageSize);
  auto& head = *pages.as<agent::ControlHead>(0);
  head.notes = pages.at(3).value;
  head.notes_count = 2;
  auto& note = pages.as<agent::EntryNote>(3)[1];
  note.address = at.value;
  std::memset(note.original, 0x90, sizeof note.original);
  note.length = arch::kNearJump;
  note.written[0] = 0xe9;
  const auto distance = static_cast<int32_t>(to.value - at.value - arch::kNearJump);
  std::memcpy(note.written + 1, &distance, sizeof distance);
}

TEST(Remains, TellWhatBelongsWhereEachJumpToAWrapperStands) {
  constexpr VirtAddr kEntry{0x2ffc};  // its last byte is the last of the code
  Pages pages(6);
  // Only where it leads to a page of ours is a note believed.
  note_jump(pages, kEntry, {0x10});
  EXPECT_THAT(pages.find().bytes, IsEmpty());
  Pages near(6, 0x20000000);
  note_jump(near, kEntry, near.at(5) + 64);
  near.header(5, agent::kCopiesMapping, arch::kPageSize);
  const Remains remains = near.find();
  EXPECT_THAT(remains.pages, SizeIs(2));
  EXPECT_THAT(remains.recorders, SizeIs(1));
  ASSERT_THAT(remains.bytes, SizeIs(1));
  EXPECT_EQ(remains.bytes[0].address, kEntry);
  EXPECT_EQ(remains.bytes[0].original, std::vector(5, std::byte{0x90}));
  EXPECT_EQ(remains.bytes[0].written[0], std::byte{0xe9});
  // And only where it stands in code.
  note_jump(near, {0x5000}, near.at(5) + 64);
  EXPECT_THAT(near.find().bytes, IsEmpty());
  near.as<agent::ControlHead>(0)->notes_count = ~uint64_t{0};
  EXPECT_THAT(near.find().bytes, IsEmpty());
}

TEST(Remains, TellWhatBelongsInEachSlotThatLeadsToAWrapper) {
  constexpr VirtAddr kSlot{0x8008};
  Pages pages(6);
  pages.header(5, agent::kCopiesMapping, arch::kPageSize);
  note_jump(pages, kSlot, {});
  auto& note = pages.as<agent::EntryNote>(3)[1];
  note.length = sizeof note.written;
  const auto lead_to = [&](VirtAddr to) { std::memcpy(note.written, &to.value, sizeof to.value); };
  lead_to(pages.at(5) + 64);
  const Remains remains = pages.find();
  ASSERT_THAT(remains.bytes, SizeIs(1));
  EXPECT_TRUE(remains.bytes[0].slot);
  EXPECT_EQ(remains.bytes[0].address, kSlot);
  EXPECT_EQ(remains.bytes[0].original, std::vector(8, std::byte{0x90}));
  // Neither where it leads elsewhere, nor in code.
  lead_to({0x10});
  EXPECT_THAT(pages.find().bytes, IsEmpty());
  lead_to(pages.at(5) + 64);
  note.address = 0x2000;
  EXPECT_THAT(pages.find().bytes, IsEmpty());
}

TEST(Remains, TellWhereTheCallThatForetellsReturnsStands) {
  Pages pages(6);
  note_jump(pages, {}, {});
  auto& note = pages.as<agent::ControlHead>(0)->foretelling;
  EXPECT_THAT(pages.find().bytes, IsEmpty());
  note.address = 0x2100;
  note.padding[1] = 0x1f;
  const Remains remains = pages.find();
  ASSERT_THAT(remains.bytes, SizeIs(1));
  EXPECT_TRUE(remains.bytes[0].foretells);
  EXPECT_EQ(remains.bytes[0].address, VirtAddr{0x2100});
  EXPECT_THAT(remains.bytes[0].written, testing::ElementsAreArray(kForetellingCall));
  EXPECT_THAT(remains.bytes[0].original,
              testing::ElementsAre(std::byte{0}, std::byte{0x1f}, std::byte{0}, std::byte{0}));
  note.address = 0x8008;  // no code
  EXPECT_THAT(pages.find().bytes, IsEmpty());
}

TEST(Remains, WithHostileNumbersAreNotBelieved) {
  Pages pages(kBlobPages + 3);
  pages.header(0, agent::kBlobMapping, agent::kBlobRoom);
  pages.header(kBlobPages, agent::kTableMapping, arch::kPageSize);
  pages.header(kBlobPages + 2, agent::kCopiesMapping, uint64_t{1} << 60);
  pages.as<agent::Blob>(0)->table = pages.at(kBlobPages).value;
  pages.as<agent::SiteTable>(kBlobPages)->slots = ~uint64_t{0} / 16;
  const Remains remains = pages.find();
  EXPECT_THAT(remains.pages, SizeIs(2));
  EXPECT_THAT(remains.bytes, IsEmpty());
  pages.as<agent::Blob>(0)->table = 0x10;
  EXPECT_THAT(pages.find().bytes, IsEmpty());
}

TEST(Remains, WithABlobThatIsNotOursAreNotTrusted) {
  Pages pages(kBlobPages);
  pages.header(0, agent::kBlobMapping, agent::kBlobRoom);
  EXPECT_THAT(pages.find().blobs, SizeIs(1));
  pages.as<agent::Blob>(0)->frame_end += arch::kPageSize;
  EXPECT_THAT(pages.find().blobs, IsEmpty()) << "a frame outside of it";
  pages.header(0, agent::kBlobMapping, agent::kBlobRoom);
  pages.as<agent::Blob>(0)->gadget += 1;
  EXPECT_THAT(pages.find().blobs, IsEmpty()) << "another gadget";
  pages.header(0, agent::kBlobMapping, agent::kBlobRoom);
  *(pages.as<unsigned char>(0) + sizeof(agent::Blob) + 8) ^= 1;
  EXPECT_THAT(pages.find().blobs, IsEmpty()) << "other code";
}

TEST(Slack, LiesBehindTheTextOfAMappedFile) {
  const auto maps = tracee::read_maps(getpid());
  const Range slack = find_slack(tracee::ProcessMemory(getpid()), maps);
  ASSERT_GE(slack.size(), 16u);
  const auto* mapping = tracee::find_mapping(maps, slack.begin);
  ASSERT_NE(mapping, nullptr);
  EXPECT_TRUE(mapping->executable && mapping->file_backed() && !mapping->shared);
  EXPECT_EQ(slack.end, mapping->range.end);
}

// The end of a process's vdso, of which nothing else is known.
struct Vdso {
  static constexpr uint64_t kBegin = 0x7fff00000000, kEnd = kBegin + 0x2000;
  Vdso(size_t at, std::vector<std::byte> bytes) {
    std::vector<std::byte> all(kEnd - kBegin);
    std::copy(bytes.begin(), bytes.end(), all.begin() + static_cast<ptrdiff_t>(at));
    memory.add(VirtAddr{kBegin}, all);
  }
  std::vector<tracee::MapsEntry> maps =
      tracee::parse_maps("7fff00000000-7fff00002000 r-xp 00000000 00:00 0   [vdso]\n");
  BufferMemory memory;
};
const Range kVdsoEnd{VirtAddr{Vdso::kEnd - 64}, VirtAddr{Vdso::kEnd}};

std::vector<std::byte> gadget() {
  const auto bytes = std::as_bytes(std::span(tracee::kRemoteCallGadget));
  return {bytes.begin(), bytes.end()};
}

TEST(Slack, LiesBehindTheVdsoWhereNoFileHasAny) {
  const Vdso vdso(0, {std::byte{1}});
  EXPECT_EQ(find_slack(vdso.memory, vdso.maps), kVdsoEnd);
  EXPECT_FALSE(gadget_stands(vdso.memory, vdso.maps));
  EXPECT_THAT(compare_with_files(getpid(), vdso.memory, vdso.maps), IsEmpty());
}

TEST(Slack, IsNotWhereTheVdsoHasAnything) {
  for (const size_t at : {size_t{0x1fff}, size_t{0x1fc0}}) {
    const Vdso vdso(at, {std::byte{1}});
    EXPECT_EQ(find_slack(vdso.memory, vdso.maps), Range{});
  }
}

TEST(Slack, MayHoldAGadgetOfOneThatDied) {
  const Vdso vdso(0x1fc0, gadget());
  EXPECT_EQ(find_slack(vdso.memory, vdso.maps), kVdsoEnd);
  EXPECT_TRUE(gadget_stands(vdso.memory, vdso.maps));
  const auto found = compare_with_files(getpid(), vdso.memory, vdso.maps);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].address, kVdsoEnd.begin);
  EXPECT_EQ(found[0].original, std::vector<std::byte>(16));
}

// Of a file that has no name any more.
class MappedFile {
 public:
  explicit MappedFile(std::span<const std::byte> content) {
    char path[] = "/tmp/remains_test.XXXXXX";
    const UniqueFd fd(mkstemp(path));
    EXPECT_EQ(pwrite(fd.get(), content.data(), content.size(), 0), static_cast<ssize_t>(content.size()));
    base_ = mmap(nullptr, arch::kPageSize, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE, fd.get(), 0);
    unlink(path);
  }
  ~MappedFile() { munmap(base_, arch::kPageSize); }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  std::byte* bytes() const { return static_cast<std::byte*>(base_); }
  VirtAddr at(size_t offset) const { return {reinterpret_cast<uint64_t>(base_) + offset}; }

 private:
  void* base_;
};

TEST(Remains, OfInt3sThoseThatAreTheFilesOwnAreNotOurs) {
  constexpr std::byte kInt3{0xcc}, kNop{0x90}, kPush{0x55}, kOther{0x41};
  const std::array content = {kNop, kInt3, kPush, kNop};
  const MappedFile file(content);
  file.bytes()[0] = file.bytes()[2] = kInt3;
  Remains remains;
  for (size_t i = 0; i < content.size(); ++i)
    remains.bytes.push_back({file.at(i), {i == 0 ? kNop : kOther}, {kInt3}});
  const tracee::ProcessMemory memory(getpid());
  drop_int3s_of_files(getpid(), memory, tracee::read_maps(getpid()), remains);
  // Ours; and one that does not stand.
  ASSERT_THAT(remains.bytes, SizeIs(2));
  EXPECT_EQ(remains.bytes[0].address, file.at(0));
  EXPECT_EQ(remains.bytes[1].address, file.at(3));
}

}  // namespace
}  // namespace rtrace::mech::remains_test
