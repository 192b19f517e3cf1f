#include "rtrace/elf/frame_index.h"

#include <gtest/gtest.h>

#include <cstring>
#include <utility>
#include <vector>

namespace rtrace::elf::frame_index_test {
namespace {

constexpr ElfAddr kBase{0x1000};
constexpr uint8_t kOmit = 0xff, kPcRelative4 = 0x1b, kUnsigned4 = 0x03, kDataRelative4 = 0x3b;

// An .eh_frame_hdr with that form of table and count, and these functions and entries.
std::vector<std::byte> header(uint8_t form, uint32_t count,
                              const std::vector<std::pair<int32_t, int32_t>>& rows) {
  std::vector<std::byte> bytes;
  const auto add = [&](const auto& value) {
    const auto* from = reinterpret_cast<const std::byte*>(&value);
    bytes.insert(bytes.end(), from, from + sizeof value);
  };
  for (uint8_t byte : {uint8_t{1}, kPcRelative4, form == kOmit ? kOmit : kUnsigned4, form}) add(byte);
  add(int32_t{0x500});  // .eh_frame
  if (form != kOmit) add(count);
  for (const auto& [function, entry] : rows) add(function), add(entry);
  return bytes;
}

std::optional<FrameIndex::Row> find(const std::vector<std::byte>& bytes, uint64_t address) {
  const auto index = FrameIndex::of({kBase, bytes});
  return index ? index->last_not_behind({address}) : std::nullopt;
}

TEST(FrameIndex, FindsTheLastThatDoesNotBeginBehindAnAddress) {
  const auto bytes = header(kDataRelative4, 3, {{-0x800, 0x40}, {0x100, 0x80}, {0x200, 0xc0}});
  EXPECT_FALSE(find(bytes, 0x7ff).has_value());
  for (const auto& [address, function, entry] : {std::tuple(0x800U, 0x800U, 0x1040U),
                                                 {0x10ffU, 0x800U, 0x1040U},
                                                 {0x1100U, 0x1100U, 0x1080U},
                                                 {0x11ffU, 0x1100U, 0x1080U},
                                                 {0x1200U, 0x1200U, 0x10c0U},
                                                 {0xffffffU, 0x1200U, 0x10c0U}}) {
    const auto row = find(bytes, address);
    ASSERT_TRUE(row.has_value()) << address;
    EXPECT_EQ(row->function.value, function) << address;
    EXPECT_EQ(row->entry.value, entry) << address;
  }
}

TEST(FrameIndex, IsNoneWithoutATableOrWithOneThatIsNotThere) {
  EXPECT_FALSE(FrameIndex::of({kBase, {}}).has_value());
  EXPECT_FALSE(FrameIndex::of({kBase, header(kOmit, 0, {})}).has_value());
  EXPECT_FALSE(FrameIndex::of({kBase, header(kUnsigned4, 1, {{0, 0}})}).has_value());
  EXPECT_FALSE(FrameIndex::of({kBase, header(kDataRelative4, 2, {{0, 0}})}).has_value());
  EXPECT_FALSE(FrameIndex::of({kBase, header(kDataRelative4, ~uint32_t{0}, {{0, 0}})}).has_value());
  EXPECT_FALSE(find(header(kDataRelative4, 0, {}), 0x1000).has_value());
}

}  // namespace
}  // namespace rtrace::elf::frame_index_test
