#include "rtrace/base/memory.h"

#include <gmock/gmock.h>

#include <cstring>
#include <initializer_list>
#include <string>

namespace rtrace::memory_test {
namespace {

constexpr uint64_t kPage = 4096;

// Whole pages, as process_vm_readv sees them: a piece that reaches into a page that is not mapped is not read
// at all.
class PagedMemory : public Memory {
 public:
  explicit PagedMemory(VirtAddr begin, std::string bytes) : begin_(begin), bytes_(std::move(bytes)) {}
  size_t read(VirtAddr address, std::span<std::byte> out) const override {
    uint64_t offset = address - begin_;
    if (offset > bytes_.size() || out.size() > bytes_.size() - offset) return 0;
    std::memcpy(out.data(), bytes_.data() + offset, out.size());
    return out.size();
  }

 private:
  VirtAddr begin_;
  std::string bytes_;
};

TEST(ReadCString, FindsTheTerminator) {
  BufferMemory memory;
  memory.add({0x1000}, std::string_view("hello\0world", 12));
  auto string = memory.read_c_string({0x1000}, 100);
  ASSERT_TRUE(string);
  EXPECT_EQ(string->text, "hello");
  EXPECT_TRUE(string->terminated);
}

TEST(ReadCString, StopsAtTheLimitWithoutSayingTerminated) {
  BufferMemory memory;
  memory.add({0x1000}, std::string_view("hello\0", 6));
  EXPECT_EQ(memory.read_c_string({0x1000}, 5)->text, "hello");
  EXPECT_FALSE(memory.read_c_string({0x1000}, 5)->terminated);
  EXPECT_TRUE(memory.read_c_string({0x1000}, 6)->terminated);
  EXPECT_EQ(memory.read_c_string({0x1000}, 3)->text, "hel");
  EXPECT_EQ(memory.read_c_string({0x1000}, 0)->text, "");
}

TEST(ReadCString, CrossesPagesAndChunks) {
  std::string text(3 * kPage - 100, 'x');
  PagedMemory memory({kPage}, text + std::string(100, '\0'));
  for (uint64_t offset : std::initializer_list<uint64_t>{0, 1, 255, 4000, 4095, 4096, 5000}) {
    auto string = memory.read_c_string({kPage + offset}, 1 << 20);
    ASSERT_TRUE(string);
    EXPECT_TRUE(string->terminated);
    EXPECT_EQ(string->text.size(), text.size() - offset);
  }
}

TEST(ReadCString, AnUnmappedPageEndsItButLosesNothingBeforeIt) {
  PagedMemory memory({kPage}, std::string(kPage, 'x'));
  for (uint64_t before : std::initializer_list<uint64_t>{1, 5, 255, 256, 257, 1000}) {
    auto string = memory.read_c_string({2 * kPage - before}, 1 << 20);
    ASSERT_TRUE(string);
    EXPECT_EQ(string->text, std::string(before, 'x'));
    EXPECT_FALSE(string->terminated);
  }
}

TEST(ReadCString, AWildPointerIsNothing) {
  PagedMemory memory({kPage}, std::string(kPage, 'x'));
  EXPECT_FALSE(memory.read_c_string({0}, 10));
  EXPECT_FALSE(memory.read_c_string({2 * kPage}, 10));
  EXPECT_FALSE(memory.read_c_string({~uint64_t{0}}, 10));
}

TEST(ReadCString, TheEmptyStringIsNotNothing) {
  BufferMemory memory;
  memory.add_value<uint8_t>({0x1fff}, 0);
  auto string = memory.read_c_string({0x1fff}, 10);
  ASSERT_TRUE(string);
  EXPECT_EQ(string->text, "");
  EXPECT_TRUE(string->terminated);
}

TEST(ReadValue, AShortReadIsNoValue) {
  BufferMemory memory;
  memory.add_value<uint32_t>({0x1000}, 0x01020304);
  EXPECT_EQ(memory.read_value<uint32_t>({0x1000}), 0x01020304u);
  EXPECT_EQ(memory.read_value<uint16_t>({0x1002}), 0x0102);
  EXPECT_EQ(memory.read_value<uint64_t>({0x1000}), std::nullopt);
  EXPECT_EQ(memory.read_value<uint8_t>({0x0fff}), std::nullopt);
}

TEST(BufferMemory, AdjacentPiecesReadAsOne) {
  BufferMemory memory;
  memory.add({0x1000}, "abc");
  memory.add({0x1003}, "def");
  memory.add({0x1007}, "far");
  std::byte out[10];
  EXPECT_EQ(memory.read({0x1001}, out), 5u);
  EXPECT_EQ(std::string(reinterpret_cast<char*>(out), 5), "bcdef");
  memory.add({0x1006}, "-");
  EXPECT_EQ(memory.read({0x1001}, out), 9u);
}

}  // namespace

}  // namespace rtrace::memory_test
