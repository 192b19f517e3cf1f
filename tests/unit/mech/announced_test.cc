#include "../../../src/mech/announced.h"

#include <gmock/gmock.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "rtrace/arch/placement.h"

namespace rtrace::mech::announced_test {
namespace {

using testing::ElementsAre;
using testing::Field;
using testing::IsEmpty;

constexpr uint64_t kSession = 7;
constexpr size_t kPages = 6;

// Memory of this very process, which stands for a tracee's, as the kernel would show it.
class Announced : public testing::Test {
 protected:
  Announced()
      : base_(static_cast<std::byte*>(mmap(nullptr, kPages * arch::kPageSize, PROT_READ | PROT_WRITE,
                                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    shown_.range = {page(0), page(kPages)};
    shown_.readable = true;
    announce({page(0), page(kPages)});
  }
  ~Announced() override { munmap(base_, kPages * arch::kPageSize); }
  Announced(const Announced&) = delete;
  Announced& operator=(const Announced&) = delete;

  VirtAddr page(size_t number) const {
    return {reinterpret_cast<uint64_t>(base_) + number * arch::kPageSize};
  }
  void announce(Range range) {
    Remains::Blob blob;
    blob.head.mapping.session = kSession;
    blob.head.announced = {range.begin.value, range.size()};
    remains_.blobs = {blob};
  }
  void mark(uint64_t session) {
    agent::MappingHeader header{{}, agent::kAbiVersion, agent::kSharedMapping, arch::kPageSize, session};
    std::memcpy(header.magic, agent::kMappingMagic, sizeof header.magic);
    std::memcpy(base_, &header, sizeof header);
  }
  std::vector<Remains::Page> found() {
    add_announced(tracee::ProcessMemory(getpid()), {shown_}, remains_);
    return remains_.pages;
  }

  std::byte* base_;
  tracee::MapsEntry shown_;
  Remains remains_;
};

TEST_F(Announced, MemoryInWhichNothingWasWrittenIsFoundAndThenKnownByItself) {
  EXPECT_THAT(found(), ElementsAre(Field(&Remains::Page::range, shown_.range)));
  const Remains later = find_pages(tracee::ProcessMemory(getpid()), {shown_});
  EXPECT_THAT(later.pages, ElementsAre(Field(&Remains::Page::range, shown_.range)));
}

TEST_F(Announced, MemoryThatTheKernelHasJoinedWithTheProgramsIsLeftAlone) {
  announce({page(2), page(kPages)});
  EXPECT_THAT(found(), IsEmpty());
  EXPECT_EQ(base_[2 * arch::kPageSize], std::byte{});
}

TEST_F(Announced, MemoryOfAnotherExtentIsTheProgramsOwn) {
  announce({page(0), page(kPages - 1)});
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(Announced, MemoryThatTheKernelHasJoinedWithKnownPagesIsFound) {
  announce({page(2), page(kPages)});
  remains_.pages = {{{page(0), page(2)}, kSession, agent::kCopiesMapping}};
  EXPECT_EQ(found().back().range, (Range{page(2), page(kPages)}));
}

TEST_F(Announced, MemoryThatSomebodyWroteToIsTheProgramsOwn) {
  base_[arch::kPageSize - 1] = std::byte{1};
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(Announced, MemoryThatCanBeWrittenIsTheProgramsOwn) {
  shown_.writable = true;
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(Announced, MemoryThatCanBeWrittenIsOursWhereItIsMarkedByWhoAnnouncedIt) {
  shown_.writable = true;
  mark(kSession + 1);
  EXPECT_THAT(found(), IsEmpty());
  mark(kSession);
  EXPECT_THAT(found(), ElementsAre(Field(&Remains::Page::range, shown_.range)));
}

TEST_F(Announced, MemoryOfAFileIsTheProgramsOwn) {
  shown_.inode = 1;
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(Announced, FromBehindTheGadgetOnLoan) {
  remains_.blobs.clear();
  const LentGadget gadget = announcing_gadget(shown_.range);
  remains_.bytes = {{{0x1000}, std::vector<std::byte>(gadget.size()), {gadget.begin(), gadget.end()}}};
  EXPECT_THAT(found(), ElementsAre(Field(&Remains::Page::range, shown_.range)));
}

TEST(AnnouncedBehindTheGadget, IsWhatWasSaid) {
  const Range highest{{0x7ffffffff000 - 0x1000}, {0x7ffffffff000}};
  const Range largest{{0x10000}, {0x10000 + uint64_t{0xfffff000}}};
  for (const Range range : {Range{}, highest, largest})
    EXPECT_EQ(announced_behind(announcing_gadget(range)).size(), range.size());
  EXPECT_EQ(announced_behind(announcing_gadget(highest)), highest);
  EXPECT_TRUE(announced_behind(announcing_gadget({{0}, {uint64_t{1} << 32}})).empty())
      << "too large to be said";
  EXPECT_TRUE(announced_behind(std::vector<std::byte>(16)).empty()) << "no gadget";
  const LentGadget gadget = announcing_gadget(highest);
  EXPECT_TRUE(announced_behind(std::span(gadget).first(gadget.size() - 1)).empty());
}

}  // namespace
}  // namespace rtrace::mech::announced_test
