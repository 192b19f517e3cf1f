#include "../../../src/agent/passed.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>

#include "agent/recorder_memory.h"

namespace rtrace::agent {
namespace {

constexpr uint64_t kWord = 8;

// As behind a wrapper's frame, with much of a stack above it.
class PassedBytes : public testing::Test {
 protected:
  struct Stack : WrapperStack {
    uint64_t more[8192] = {};
  };
  template <typename Character>
  uint64_t told_by(const Character* format, uint16_t least = 0) {
    stack_->frame.entry.arguments[2] = reinterpret_cast<uint64_t>(format);
    return passed_bytes(memory_.control, stack_->frame, {least, 3, sizeof(Character)});
  }
  RecorderMemory memory_{Mode::off};
  std::unique_ptr<Stack> stack_ = std::make_unique<Stack>();
};

TEST_F(PassedBytes, AreEnoughForWhatAFormatConverts) {
  const struct {
    const char* format;
    uint64_t words;  // as many, and not many more
  } rows[] = {{"", 0},
              {"text", 0},
              {"100%% of %%d", 0},
              {"%d", 1},
              {"%-+ #08.3lld|", 1},
              {"%*.*f", 3},
              {"%Lf %Lf", 6},
              {"%d %s %c %p %zu %jd %td %hhx %'d", 9},
              {"%2$s %1$*3$d", 3},
              {"%200$d", 200},
              {"%[^]%] %d", 2},
              {"%", 0},
              {"%-", 0}};
  for (const auto& row : rows) {
    const uint64_t bytes = told_by(row.format);
    EXPECT_GE(bytes, kWord * row.words) << row.format;
    EXPECT_LE(bytes, kWord * (3 * row.words + 12)) << row.format;
    EXPECT_EQ(bytes % 16, 0u) << row.format;
  }
  EXPECT_EQ(told_by("text", 256), 256u);
}

TEST_F(PassedBytes, OfWideFormatsAreTheSame) {
  EXPECT_EQ(told_by(L"%d %ls %Lf"), told_by("%d %s %Lf"));
  EXPECT_EQ(told_by(L"text"), 0u);
}

TEST_F(PassedBytes, AreNoMoreThanTheStackHas) {
  std::string format;
  for (int i = 0; i < 100'000; ++i) format += "%d";
  const auto room =
      reinterpret_cast<uint64_t>(&stack_->more[8192]) - reinterpret_cast<uint64_t>(stack_->arguments);
  EXPECT_GE(told_by(format.c_str()), room / 16 * 16);
  EXPECT_LT(told_by("%99999999999999999999$d"), uint64_t{1} << 24);
}

// What cannot be read ends it.
TEST_F(PassedBytes, BearFormatsThatAreNone) {
  constexpr size_t kPage = 4096;
  auto* pages = static_cast<char*>(
      mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(pages, MAP_FAILED);
  ASSERT_EQ(munmap(pages + kPage, kPage), 0);
  std::memcpy(pages + kPage - 6, "%d %d%", 6);
  EXPECT_GE(told_by(pages + kPage - 6), 2 * kWord);
  EXPECT_EQ(told_by(reinterpret_cast<const wchar_t*>(pages + kPage - 2)), 0u);
  for (const uint64_t nowhere : {uint64_t{8}, uint64_t{1} << 63, ~uint64_t{7}})
    EXPECT_EQ(told_by(reinterpret_cast<const char*>(nowhere)), 0u);
  EXPECT_EQ(told_by(static_cast<const char*>(nullptr), 48), 48u);
  munmap(pages, kPage);
}

}  // namespace
}  // namespace rtrace::agent
