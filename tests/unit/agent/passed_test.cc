#include "../../../src/agent/passed.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>

#include "agent/recorder_memory.h"

namespace rtrace::agent::passed_test {
namespace {

constexpr uint64_t kWord = 8;

// As behind a wrapper's frame, with much of a stack above it and below.
class PassedBytes : public testing::Test {
 protected:
  struct Stack : WrapperStack {
    uint64_t more[8192] = {};
  };
  struct WholeStack {
    std::byte below[1 << 20];
    Stack stack;
  };
  // Of a function whose third argument it is, behind a double and `named` bytes in memory.
  template <typename Character>
  uint64_t told_by(const Character* format, uint16_t named = 0, bool scans = false) {
    stack_->frame.entry.arguments[2] = reinterpret_cast<uint64_t>(format);
    return told_bytes(memory_.control, stack_->frame, behind(sizeof(Character), named, scans));
  }
  static Passed behind(size_t unit, uint16_t named = 0, bool scans = false) {
    return {.bytes = named,
            .unit = static_cast<uint8_t>(unit & 7),
            .scans = scans ? uint8_t{1} : uint8_t{0},
            .integers = 3,
            .vectors = 1};
  }
  uint64_t passed_by(const char* format) {
    stack_->frame.entry.arguments[2] = reinterpret_cast<uint64_t>(format);
    return passed_bytes(memory_.control, stack_->frame, behind(1));
  }
  RecorderMemory memory_{Mode::off};
  std::unique_ptr<WholeStack> whole_ = std::make_unique<WholeStack>();
  Stack* stack_ = &whole_->stack;
};

TEST_F(PassedBytes, AreThoseThatAFormatConverts) {
  const struct {
    const char* format;
    uint64_t words;
  } rows[] = {{"", 0},
              {"100%% of %%d %m", 0},
              {"%d %s %c", 0},
              {"%d %s %c %p", 1},
              {"%-+ #08.3lld %zu %jd %td|%hhx %'d %b", 4},
              {"%*.*d %d", 1},
              {"%f %e %g %a %F %E %G", 0},
              {"%f %e %g %a %F %E %G %A %f", 2},
              {"%Lf", 2},
              {"%d %d %d %d %Lf", 4},
              {"%llf %qe", 4},
              {"%2$s %1$*3$d", 3},
              {"%1$Lf", 3},
              {"%200$d", 200},
              {"%", 0},
              {"%-", 0},
              {"%y", 64},
              {"%w32d", 64}};
  for (const auto& row : rows) EXPECT_EQ(told_by(row.format), kWord * row.words) << row.format;
  EXPECT_EQ(told_by("%d %d %d %d", 16), 3 * kWord);
}

TEST_F(PassedBytes, ArePointersToWhatAFormatScans) {
  const struct {
    const char* format;
    uint64_t words;
  } rows[] = {{"%d %f %Lf", 0},
              {"%d %f %Lf %ms", 1},
              {"%*d %d %*s %d %d %d", 1},
              {"%[^]%d] %d%d%d", 1},
              {"%[]a] %[^a] %*[%] %d%d", 1},
              {"%d%%%d%%%d%%%d", 1},
              {"%[", 0}};
  for (const auto& row : rows) EXPECT_EQ(told_by(row.format, 0, true), kWord * row.words) << row.format;
}

TEST_F(PassedBytes, OfWideFormatsAreTheSame) {
  EXPECT_EQ(told_by(L"%d %d %d %ls %Lf"), 4 * kWord);
  EXPECT_EQ(told_by(L"text"), 0u);
}

TEST_F(PassedBytes, AreNoMoreThanTheStackHas) {
  std::string format;
  for (int i = 0; i < 100'000; ++i) format += "%d";
  const auto room =
      reinterpret_cast<uint64_t>(&stack_->more[8192]) - reinterpret_cast<uint64_t>(stack_->arguments);
  EXPECT_GE(passed_by(format.c_str()), room);
  EXPECT_LT(told_by("%99999999999999999999$d"), uint64_t{1} << 24);
}

// A name is no format, and may have any number of others behind it.
TEST_F(PassedBytes, AreAFairShareOfTheStackWhateverAFormatSays) {
  for (const char* format : {"", "name", "%d %d %d %d"})
    EXPECT_EQ(passed_by(format), kLeastOfFormats) << format;
  EXPECT_EQ(passed_by("%200$d"), 200 * kWord);
}

TEST_F(PassedBytes, OfFormatsWhoseCharactersLieOnTwoPages) {
  constexpr size_t kPage = 4096;
  std::vector<char> room(3 * kPage);
  const wchar_t text[] = L"%d %d %d %d %d";
  char* at = room.data() + kPage - reinterpret_cast<uint64_t>(room.data()) % kPage + kPage - 18;
  std::memcpy(at, text, sizeof text);
  EXPECT_EQ(told_by(reinterpret_cast<const wchar_t*>(at)), 2 * kWord);
}

// What cannot be read ends it.
TEST_F(PassedBytes, BearFormatsThatAreNone) {
  constexpr size_t kPage = 4096;
  auto* pages = static_cast<char*>(
      mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(pages, MAP_FAILED);
  ASSERT_EQ(munmap(pages + kPage, kPage), 0);
  std::memcpy(pages + kPage - 15, "%d %d %d %d %d%", 15);
  EXPECT_EQ(told_by(pages + kPage - 15), 2 * kWord);
  EXPECT_EQ(told_by(reinterpret_cast<const wchar_t*>(pages + kPage - 2)), 0u);
  for (const uint64_t nowhere : {uint64_t{8}, uint64_t{1} << 63, ~uint64_t{7}})
    EXPECT_EQ(told_by(reinterpret_cast<const char*>(nowhere)), 0u);
  EXPECT_EQ(told_by(static_cast<const char*>(nullptr), 48), 48u);
  munmap(pages, kPage);
}

}  // namespace
}  // namespace rtrace::agent::passed_test
