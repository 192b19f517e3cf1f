#include "rtrace/unwind/return_frame.h"

#include <gmock/gmock.h>

#include "rtrace/base/error.h"
#include "rtrace/unwind/frame_table.h"
#include "unwind/made_object.h"

namespace rtrace::unwind::return_frame_test {
namespace {

constexpr uint32_t kWords = 0x28, kWholeFrame = 0xd8;  // what wrappers need

std::optional<ReturnFrame> least(const std::shared_ptr<const elf::ElfFile>& file, uint32_t fewest) {
  return find_return_frame(file, [&](uint32_t adds) { return adds % 16 == 8 && adds >= fewest; });
}

std::shared_ptr<const elf::ElfFile> library(const std::string& name) {
  for (const char* folder : {"/lib/x86_64-linux-gnu/", "/usr/lib/x86_64-linux-gnu/", "/lib64/"}) {
    try {
      return elf::ElfFile::open(folder + name);
    } catch (const Error&) {
      continue;
    }
  }
  return nullptr;
}

struct Lender {
  const char* name;
  bool whole;  // lends a whole frame too
};
class ReturnFrameIn : public testing::TestWithParam<Lender> {};

TEST_P(ReturnFrameIn, IsFoundForWordsAndForAWholeFrame) {
  const auto file = library(GetParam().name);
  ASSERT_NE(file, nullptr);
  for (uint32_t fewest : {kWords, kWholeFrame}) {
    const auto found = least(file, fewest);
    if (fewest == kWholeFrame && !GetParam().whole) continue;
    ASSERT_TRUE(found.has_value());
    EXPECT_GE(found->adds, fewest);
    EXPECT_LE(found->adds, 2 * kWholeFrame);
    EXPECT_EQ(file->bytes_at(found->ret, 1)[0], std::byte{0xc3});
    FrameTable table(file);
    const Row* row = table.find(found->ret - 1);
    ASSERT_NE(row, nullptr);
    EXPECT_EQ(row->cfa.offset, found->adds + 8);
    EXPECT_EQ(table.find(found->ret)->cfa.offset, 8);
  }
}

TEST(PaddedReturns, AreFoundTheSmallestFirst) {
  constexpr size_t kRoom = 4;
  for (const char* name : {"libc.so.6", "ld-linux-x86-64.so.2"}) {
    const auto file = library(name);
    ASSERT_NE(file, nullptr);
    const auto found = find_padded_returns(file, kRoom);
    ASSERT_FALSE(found.empty()) << name;
    EXPECT_TRUE(std::ranges::is_sorted(found, {}, &ReturnFrame::adds));
    FrameTable table(file);
    for (const ReturnFrame& frame : found) {
      EXPECT_EQ(file->bytes_at(frame.ret, 1)[0], std::byte{0xc3});
      for (uint64_t before = 1; before <= kRoom; ++before)
        EXPECT_EQ(table.find(frame.ret - before)->cfa.offset, frame.adds + 8);
      EXPECT_EQ(table.find(frame.ret)->cfa.offset, 8);
    }
  }
}

// rbp, r15 to r12 and rbx lie below the return address, in that order.
TEST(CallingFrames, AreFoundInTheCLibrary) {
  const auto file = library("libc.so.6");
  ASSERT_NE(file, nullptr);
  const auto found = find_calling_frames(file);
  ASSERT_FALSE(found.empty());
  FrameTable table(file);
  for (const CallingFrame& frame : found) {
    const auto code = file->bytes_at(frame.ret, 3);
    EXPECT_EQ(code[frame.reg < 8 ? 0 : 1], std::byte{0xff});
    EXPECT_EQ(std::to_integer<unsigned>(code[frame.reg < 8 ? 1 : 2]), 0xd0u + frame.reg % 8);
    const Row* row = table.find(frame.ret - 1);
    ASSERT_NE(row, nullptr);
    EXPECT_EQ(row->cfa.reg, Registers::kBp);
    EXPECT_EQ(row->cfa.offset, 16);
    int64_t at = -8;
    for (const size_t reg : {6u, 15u, 14u, 13u, 12u, 3u}) {
      EXPECT_EQ(row->rules[reg].kind, Rule::Kind::at_offset);
      EXPECT_EQ(row->rules[reg].offset, at -= 8);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Libraries, ReturnFrameIn,
                         testing::Values(Lender{"libc.so.6", true}, Lender{"libstdc++.so.6", false},
                                         Lender{"libruby-3.1.so.3.1", true},
                                         Lender{"ld-linux-x86-64.so.2", true}));

TEST(ReturnFrame, IsNotFoundWhereNothingFits) {
  const auto file = library("libc.so.6");
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(find_return_frame(file, [](uint32_t) { return false; }), std::nullopt);
}

}  // namespace
}  // namespace rtrace::unwind::return_frame_test
