#include "rtrace/base/text.h"

#include <gmock/gmock.h>

#include <optional>
#include <vector>

namespace rtrace::text_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(ParseNumber, TakesDecimalHexAndOctalAndNothingElse) {
  const std::pair<const char*, std::optional<uint64_t>> rows[] = {
      {"0", 0},
      {"42", 42},
      {"0x1f", 31},
      {"0X1F", 31},
      {"017", 15},
      {"00", 0},
      {"18446744073709551615", ~uint64_t{0}},
      {"0xffffffffffffffff", ~uint64_t{0}},
      {"18446744073709551616", std::nullopt},
      {"0x10000000000000000", std::nullopt},
      {"", std::nullopt},
      {"0x", std::nullopt},
      {"08", std::nullopt},
      {"-1", std::nullopt},
      {"+1", std::nullopt},
      {"0x-1", std::nullopt},
      {" 1", std::nullopt},
      {"1 ", std::nullopt},
      {"1x", std::nullopt},
      {"f", std::nullopt},
  };
  for (const auto& [word, number] : rows) EXPECT_EQ(parse_number(word), number) << '"' << word << '"';
}

TEST(ParseDuration, TakesAmountsWithAUnitAndNothingElse) {
  const std::pair<std::string_view, std::optional<uint64_t>> rows[] = {
      {"800ns", 800},
      {"200us", 200'000},
      {"5ms", 5'000'000},
      {"1.5s", 1'500'000'000},
      {"0.000000001s", 1},
      {"0.0000000019s", 1},
      {"0s", 0},
      {"18446744073s", 18'446'744'073'000'000'000u},
      {"18446744074s", std::nullopt},
      {"5", std::nullopt},
      {"s", std::nullopt},
      {".5s", std::nullopt},
      {"5.s", std::nullopt},
      {"5 ms", std::nullopt},
      {"-5ms", std::nullopt},
      {"5m", std::nullopt},
      {"1.5.5s", std::nullopt},
      {"0x5s", std::nullopt},
      {"", std::nullopt}};
  for (const auto& [word, duration] : rows) EXPECT_EQ(parse_duration(word), duration) << '"' << word << '"';
}

TEST(Split, KeepsEmptyParts) {
  EXPECT_THAT(split("a,b", ','), ElementsAre("a", "b"));
  EXPECT_THAT(split("a", ','), ElementsAre("a"));
  EXPECT_THAT(split("", ','), ElementsAre(""));
  EXPECT_THAT(split(",a,", ','), ElementsAre("", "a", ""));
}

TEST(BasenameOf, IsWhatFollowsTheLastSlash) {
  EXPECT_EQ(basename_of("/usr/lib/libz.so.1"), "libz.so.1");
  EXPECT_EQ(basename_of("libz.so.1"), "libz.so.1");
  EXPECT_EQ(basename_of("/usr/lib/"), "");
}

TEST(Demangle, ReadsItaniumNamesOnly) {
  EXPECT_EQ(demangle("_ZN2ns1fEi"), "ns::f(int)");
  EXPECT_EQ(demangle("_ZSt4cout"), "std::cout");
  EXPECT_EQ(demangle("malloc"), std::nullopt);
  EXPECT_EQ(demangle("i"), std::nullopt) << "a type's code, not a symbol";
  EXPECT_EQ(demangle("_Zbroken"), std::nullopt);
}

struct Distance {
  const char *a, *b;
  size_t limit, distance;
};

TEST(EditDistance, CountsInsertionsDeletionsAndReplacements) {
  const Distance rows[] = {
      {"", "", 5, 0},
      {"abc", "abc", 5, 0},
      {"abc", "", 5, 3},
      {"", "abc", 5, 3},
      {"kitten", "sitting", 5, 3},
      {"malloc", "mallok", 5, 1},
      {"malloc", "maloc", 5, 1},
      {"flaw", "lawn", 5, 2},
      {"abcdef", "ghijkl", 6, 6},
  };
  for (const Distance& row : rows) {
    EXPECT_EQ(edit_distance(row.a, row.b, row.limit), row.distance) << row.a << ' ' << row.b;
    EXPECT_EQ(edit_distance(row.b, row.a, row.limit), row.distance) << row.b << ' ' << row.a;
  }
}

TEST(EditDistance, GivesUpBeyondTheLimit) {
  EXPECT_EQ(edit_distance("kitten", "sitting", 2), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting", 0), 1u);
  EXPECT_EQ(edit_distance("a", "abcdefgh", 3), 4u);
  EXPECT_EQ(edit_distance("same", "same", 0), 0u);
}

const std::vector<std::string> kMysql = {
    "mysql_close",        "mysql_init",  "mysql_send_query", "mysql_read_query_result",
    "mysql_store_result", "zlibVersion", "my_init"};

TEST(NearestNames, FindsTheFunctionThatIsCalledInstead) {
  auto names = nearest_names("mysql_real_query", kMysql, 3);
  ASSERT_FALSE(names.empty());
  EXPECT_EQ(names.front(), "mysql_send_query");
}

TEST(NearestNames, FindsTypos) {
  EXPECT_THAT(nearest_names("mysql_int", kMysql, 1), ElementsAre("mysql_init"));
  EXPECT_THAT(nearest_names("zlibversion", kMysql, 5), ElementsAre("zlibVersion"));
}

TEST(NearestNames, LeavesOutStrangersAndTheNameItself) {
  EXPECT_THAT(nearest_names("qqqqqqqqqq", kMysql, 5), IsEmpty());
  EXPECT_THAT(nearest_names("zlibVersion", kMysql, 5), IsEmpty());
  EXPECT_THAT(nearest_names("", kMysql, 5), IsEmpty());
}

TEST(NearestNames, GivesNoMoreThanAskedAndNoneTwice) {
  const std::vector<std::string> twins = {"reada", "readb", "readc", "reada"};
  EXPECT_THAT(nearest_names("read", twins, 2), ElementsAre("reada", "readb"));
  EXPECT_THAT(nearest_names("read", twins, 9), ElementsAre("reada", "readb", "readc"));
}

// a<S0_,S0_>, a<S1_,S1_>, ...: each level doubles the text.
std::string doubling_name(size_t levels) {
  static constexpr std::string_view kDigits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  std::string name = "_Z1f1aIiiE";
  for (size_t i = 0; i < levels; ++i) {
    const std::string before = std::string("S") + kDigits[i] + "_";
    name += "S_I" + before + before + "E";
  }
  return name;
}

TEST(Demangle, GivesUpOnANameThatStandsForGigabytes) {
  EXPECT_THAT(demangle(doubling_name(5)), testing::Optional(testing::SizeIs(1048)));
  EXPECT_EQ(demangle(doubling_name(30)), std::nullopt);
}

TEST(Printable, NoControlCharacterPasses) {
  auto printable = [](std::string_view text, bool utf8) {
    std::string out;
    append_printable(out, text, utf8);
    return out;
  };
  EXPECT_EQ(printable("\033[2J\a\n\x7f\x9b", true), "\\033[2J\\007\\012\\177\\233");
  EXPECT_EQ(printable("\xc3\xbc \xc2\x9b", true), "\xc3\xbc \\302\\233") << "U+009B is CSI";
  EXPECT_EQ(printable("\xc3\xbc", false), "\\303\\274");
}

}  // namespace
}  // namespace rtrace::text_test
