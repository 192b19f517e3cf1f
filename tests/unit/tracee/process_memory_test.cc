#include "rtrace/tracee/process_memory.h"

#include <gmock/gmock.h>

#include <array>
#include <cstring>

#include "rtrace/base/error.h"
#include "tracee/child.h"

namespace rtrace::tracee::process_memory_test {
namespace {

using tests::Child;
using tests::Pages;
using tests::Pipe;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// Three pages, filled with 'a', 'b' and 'c'; the middle one is missing in the child.
class ProcessMemoryTest : public testing::Test {
 protected:
  ProcessMemoryTest() {
    for (size_t i = 0; i < 3; ++i) std::memset(pages.page(i), "abc"[i], Pages::kSize);
    child.emplace([&] {
      pages.unmap(1);
      ready.signal();
      return go.wait() ? std::to_integer<int>(pages.data()[0]) : 1;
    });
    memory.emplace(child->pid());
    ready.wait();
  }
  VirtAddr at(size_t page, size_t offset) const { return pages.address() + page * Pages::kSize + offset; }
  std::string read(VirtAddr address, size_t size) const {
    std::string out(size, '?');
    out.resize(memory->read(address, std::as_writable_bytes(std::span(out))));
    return out;
  }

  Pages pages{3, PROT_READ | PROT_WRITE};
  Pipe ready, go;
  std::optional<Child> child;
  std::optional<ProcessMemory> memory;
};

TEST_F(ProcessMemoryTest, AReadEndsAtTheFirstUnmappedPage) {
  struct Row {
    size_t page, offset, size;
    std::string expected;
  };
  const Row rows[] = {{0, 0, 4, "aaaa"},  {0, 4092, 4, "aaaa"}, {0, 4092, 100, "aaaa"}, {1, 0, 4, ""},
                      {1, 4092, 100, ""}, {2, 0, 3, "ccc"},     {2, 5, 0, ""}};
  for (const Row& row : rows)
    EXPECT_EQ(read(at(row.page, row.offset), row.size), row.expected) << row.page << "+" << row.offset;
  EXPECT_EQ(read(VirtAddr{0}, 8), "");
  EXPECT_EQ(read(VirtAddr{~uint64_t{0} - 4}, 8), "");
}

TEST_F(ProcessMemoryTest, GatheredReadsGoOnBehindWhatIsUnmapped) {
  // More pieces than one system call takes, every third of them out of reach, every tenth short.
  struct Expected {
    size_t size, got;
    char content;
  };
  std::vector<Expected> expected;
  std::vector<ProcessMemory::Piece> pieces;
  std::vector<std::array<std::byte, 64>> buffers(200);
  for (size_t i = 0; i < buffers.size(); ++i) {
    Expected row{1 + i % 60, 1 + i % 60, "abc"[i % 3]};
    VirtAddr address = at(i % 3, i);
    if (i % 3 == 1) row.got = 0;
    if (i % 30 == 0) {  // the last two bytes of the first page
      address = at(0, Pages::kSize - 2);
      row = {40, 2, 'a'};
    }
    pieces.push_back({address, buffers[i].data(), row.size, 77});
    expected.push_back(row);
  }
  memory->read_gathered(pieces);
  for (size_t i = 0; i < pieces.size(); ++i) {
    ASSERT_EQ(pieces[i].got, expected[i].got) << i;
    for (size_t j = 0; j < pieces[i].got; ++j)
      ASSERT_EQ(static_cast<char>(buffers[i][j]), expected[i].content) << i;
  }
}

TEST_F(ProcessMemoryTest, GatheringNothingIsNothing) {
  memory->read_gathered({});
  ProcessMemory::Piece empty{at(0, 0), nullptr, 0, 9};
  memory->read_gathered({&empty, 1});
  EXPECT_EQ(empty.got, 0u);
}

TEST_F(ProcessMemoryTest, AWriteThatMeetsAnUnmappedPageSaysSo) {
  EXPECT_NE(memory->write(at(1, 0), bytes_of("x")), 0);
  EXPECT_NE(memory->write(at(0, Pages::kSize - 1), bytes_of("xy")), 0);
}

TEST_F(ProcessMemoryTest, OfAProcessThatHasEndedNothingCanBeReadOrWritten) {
  go.signal();
  EXPECT_EQ(child->end(), 'a');
  EXPECT_EQ(read(at(0, 0), 4), "");
  std::array<std::byte, 4> out{};
  EXPECT_EQ(memory->read_forced(at(0, 0), out), 0u);
  EXPECT_NE(memory->write(at(0, 0), bytes_of("x")), 0);
}

TEST(ProcessMemory, IsRefusedOfAProcessThatIsNot) {
  Child child([] { return 0; });
  const pid_t pid = child.pid();
  EXPECT_EQ(child.end(), 0);
  EXPECT_THROW(ProcessMemory{pid}, Error);
}

TEST(ProcessMemory, WritesToAReadOnlyPageOfTheChildAlone) {
  Pages page(1, PROT_READ | PROT_WRITE);
  std::memcpy(page.data(), "old", 3);
  page.protect(PROT_READ);
  Pipe go;
  Child child([&] { return go.wait() && std::memcmp(page.data(), "new", 3) == 0 ? 7 : 1; });
  EXPECT_EQ(ProcessMemory(child.pid()).write(page.address(), bytes_of("new")), 0);
  go.signal();
  EXPECT_EQ(child.end(), 7);
  EXPECT_EQ(std::memcmp(page.data(), "old", 3), 0);
}

TEST(ProcessMemory, ForcedReadsReachWhatTheProcessItselfMayNotRead) {
  Pages page(1, PROT_READ | PROT_WRITE);
  std::memcpy(page.data(), "hidden", 6);
  page.protect(PROT_NONE);
  Pipe go;
  Child child([&] { return go.wait() ? 0 : 1; });
  const ProcessMemory memory(child.pid());
  char out[6] = {};
  EXPECT_EQ(memory.read(page.address(), std::as_writable_bytes(std::span(out))), 0u);
  EXPECT_EQ(memory.read_forced(page.address(), std::as_writable_bytes(std::span(out))), 6u);
  EXPECT_EQ(std::string(out, 6), "hidden");
}

}  // namespace
}  // namespace rtrace::tracee::process_memory_test
