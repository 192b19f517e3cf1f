#include "../../../src/elf/text_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>

namespace rtrace::elf::text_search_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<uint32_t> one_by_one(std::string_view text, std::string_view name) {
  std::vector<uint32_t> found;
  for (size_t at = text.find(name); at != text.npos; at = text.find(name, at + 1))
    found.push_back(static_cast<uint32_t>(at));
  return found;
}

TEST(TextSearch, FindsEachPlaceOverlappingOnesToo) {
  EXPECT_THAT(find_places("aaa", "aa"), ElementsAre(0, 1));
  EXPECT_THAT(find_places("puts", "puts"), ElementsAre(0));
  EXPECT_THAT(find_places("put", "puts"), IsEmpty());
  EXPECT_THAT(find_places("puts", ""), IsEmpty());
  EXPECT_THAT(find_places("", ""), IsEmpty());
  EXPECT_THAT(find_places(std::string_view("a\0b\0a", 5), std::string_view("\0", 1)), ElementsAre(1, 3));
}

// The last place is the last that has room, wherever it lies in the vectors; nothing behind it is read.
TEST(TextSearch, AtEveryDistanceFromBothEnds) {
  for (size_t size = 1; size < 200; ++size)
    for (const std::string name : {"x", "xy", "a_longer_name"}) {
      for (size_t at = 0; at + name.size() <= size; ++at) {
        const auto text = std::make_unique<char[]>(size);
        std::fill_n(text.get(), size, '.');
        std::copy(name.begin(), name.end(), text.get() + at);
        EXPECT_THAT(find_places({text.get(), size}, name), ElementsAre(at)) << size;
      }
    }
}

TEST(TextSearch, FindsWhatALookAtEachPlaceFinds) {
  std::mt19937 random(1);  // NOLINT(bugprone-random-generator-seed): the same each time
  std::uniform_int_distribution<int> letter('a', 'c'), length(1, 6), size(0, 1000);
  for (int round = 0; round < 2000; ++round) {
    std::string text(static_cast<size_t>(size(random)), ' '), name(static_cast<size_t>(length(random)), ' ');
    for (char& one : text) one = static_cast<char>(letter(random));
    for (char& one : name) one = static_cast<char>(letter(random));
    ASSERT_EQ(find_places(text, name), one_by_one(text, name)) << name;
  }
}

}  // namespace
}  // namespace rtrace::elf::text_search_test
