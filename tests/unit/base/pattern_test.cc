#include "rtrace/base/pattern.h"

#include <gmock/gmock.h>

#include <vector>

#include "rtrace/base/error.h"

namespace rtrace::pattern_test {
namespace {

struct Row {
  const char* pattern;
  const char* text;
  bool matches;
};

TEST(Glob, MatchesWholeNames) {
  const std::vector<Row> rows = {
      {"", "", true},
      {"", "a", false},
      {"a", "a", true},
      {"a", "ab", false},
      {"a", "ba", false},
      {"*", "", true},
      {"*", "anything/at.all", true},
      {"?", "", false},
      {"?", "x", true},
      {"a*", "a", true},
      {"*a", "ba", true},
      {"*a", "ab", false},
      {"*a*b*c*", "xaxbxcx", true},
      {"*a*b*c*", "xaxcxbx", false},
      {"a**b", "ab", true},
      {"lib*.so.?", "libz.so.1", true},
      {"lib*.so.?", "libz.so.10", false},
      {"mysql_*_query", "mysql_real_query", true},
      {"mysql_*_query", "mysql_query", false},
      {"*ab", "aab", true},
      {"*aab", "aaab", true},
  };
  for (const Row& row : rows)
    EXPECT_EQ(glob_match(row.pattern, row.text), row.matches) << row.pattern << " on " << row.text;
}

TEST(Glob, BracketsAreSetsRangesAndClasses) {
  const std::vector<Row> rows = {
      {"[abc]", "b", true},
      {"[abc]", "d", false},
      {"[a-c]x", "bx", true},
      {"[a-c]x", "dx", false},
      {"[!a-c]", "d", true},
      {"[!a-c]", "a", false},
      {"[^a-c]", "d", true},
      {"[]]", "]", true},
      {"[]a]", "a", true},
      {"[!]]", "]", false},
      {"[!]]", "a", true},
      {"[a-]", "-", true},
      {"[-a]", "-", true},
      {"[a-]", "b", false},
      {"[a\\]b]", "]", true},
      {"[a\\-c]", "b", false},
      {"[a\\-c]", "-", true},
      {"[[:digit:]]", "7", true},
      {"[[:digit:]]", "x", false},
      {"[![:digit:]]", "x", true},
      {"[[:upper:]_]*", "_x", true},
      {"[[:upper:]_]*", "X", true},
      {"[[:xdigit:][:blank:]]", " ", true},
      {"[[:nonsense:]]", "n", false},
      {"[*]", "*", true},
      {"[*]", "x", false},
      {"*[0-9]", "abc7", true},
      {"[\200-\377]", "\300", true},
      {"[^a]", "", false},
  };
  for (const Row& row : rows)
    EXPECT_EQ(glob_match(row.pattern, row.text), row.matches) << row.pattern << " on " << row.text;
}

TEST(Glob, WhatIsNotSpecialIsItself) {
  const std::vector<Row> rows = {
      {"\\*", "*", true},     {"\\*", "x", false},
      {"a\\?b", "a?b", true}, {"\\a", "a", true},
      {"\\", "\\", true},     {"[", "[", true},
      {"[abc", "[abc", true}, {"[abc", "a", false},
      {"a[", "a[", true},     {"operator[]", "operator[]", true},
      {"[]", "[]", true},     {"]", "]", true},
      {"a-b", "a-b", true},   {"[!", "[!", true},
  };
  for (const Row& row : rows)
    EXPECT_EQ(glob_match(row.pattern, row.text), row.matches) << row.pattern << " on " << row.text;
}

TEST(Glob, ManyStarsDoNotExplode) {
  std::string pattern, text(5000, 'a');
  for (int i = 0; i < 50; ++i) pattern += "*a";
  EXPECT_TRUE(glob_match(pattern, text));
  EXPECT_FALSE(glob_match(pattern + "b", text));
}

TEST(Regex, MatchesWholeNames) {
  const std::vector<Row> rows = {
      {"a|ab", "ab", true},
      {"a|b", "ab", false},
      {"a|b", "b", true},
      {"m.*c", "malloc", true},
      {"m.*c", "mallocx", false},
      {"m.*c", "xmalloc", false},
      {"^malloc$", "malloc", true},
      {"(re|c)alloc", "realloc", true},
      {"[[:alpha:]]+", "abc", true},
      {"a{2,3}", "aaa", true},
      {"a{2,3}", "aaaa", false},
      {"(a*)(ab)*(b*)", "abb", true},
      {"(.)\\1", "aa", true},
      {"(.)\\1", "ab", false},
      {"", "", true},
      {"", "a", false},
  };
  for (const Row& row : rows)
    EXPECT_EQ(Pattern::regex(row.pattern).matches(row.text), row.matches)
        << row.pattern << " on " << row.text;
}

TEST(Regex, BasicSyntaxTakesPlusAndBarAsThemselves) {
  const std::vector<Row> rows = {
      {"a+", "a+", true},        {"a+", "aa", false},  {"\\(x\\)\\1", "xx", true},
      {"mem.*", "memcpy", true}, {"a|b", "a|b", true},
  };
  for (const Row& row : rows)
    EXPECT_EQ(Pattern::basic_regex(row.pattern).matches(row.text), row.matches)
        << row.pattern << " on " << row.text;
}

TEST(Regex, TheTextNeedsNoTerminatorAndMayHoldNul) {
  std::string_view text = "mallocate";
  EXPECT_TRUE(Pattern::regex("malloc").matches(text.substr(0, 6)));
  EXPECT_FALSE(Pattern::regex("malloc").matches(std::string_view("malloc\0x", 8)));
  EXPECT_TRUE(Pattern::regex("x*").matches(std::string_view{}));
}

TEST(Regex, ABadOneIsAnErrorThatQuotesIt) {
  for (const char* bad : {"(", "a)(b", "[a", "a{2", "*("}) {
    try {
      Pattern::regex(bad);
      ADD_FAILURE() << bad << " was taken";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::StartsWith("/" + std::string(bad) + "/: "));
    }
  }
}

TEST(Regex, AnErrorStandsWhereTheMistakeIs) {
  const struct {
    const char* text;
    size_t position;
  } rows[] = {{"a(b", 1},           {"(a)(b(c)", 3},  {"[(]x(", 4},           {"ab[c", 2},
              {"[a]x[^]", 4},       {"[]a][", 4},     {"x[[:alpha:]", 1},     {"[\\]x[", 4},
              {"a{2", 1},           {"a{2}b{x}", 5},  {"a{2,1}", 1},          {"ab*c|*d", 5},
              {"(*a)", 1},          {"+a", 0},        {"(a)b\\2", 4},         {"ab\\", 2},
              {"x[ab0-9z-a]", 9},   {"[[:foo:]]", 1}, {"a[b[:alphax:]c]", 3}, {"[[.foo.]]", 1},
              {"x[a-[:alpha:]]", 4}};
  for (const auto& row : rows) {
    try {
      Pattern::regex(row.text);
      ADD_FAILURE() << row.text << " was taken";
    } catch (const PatternError& error) {
      EXPECT_EQ(error.position(), row.position) << row.text << ": " << error.what();
    }
  }
}

TEST(Regex, BetweenSlashesASlashIsEscaped) {
  EXPECT_TRUE(Pattern::slashed_regex("a\\/b").matches("a/b"));
  EXPECT_TRUE(Pattern::slashed_regex("a\\.b").matches("a.b"));
  EXPECT_FALSE(Pattern::slashed_regex("a\\.b").matches("axb"));
  EXPECT_TRUE(Pattern::slashed_regex("a\\\\").matches("a\\"));
  try {
    Pattern::slashed_regex("\\/x\\/(");
    ADD_FAILURE();
  } catch (const PatternError& error) {
    EXPECT_EQ(error.position(), 5u);
  }
}

TEST(Glob, ABracketThatCanMatchNothingIsAMistake) {
  const struct {
    const char* text;
    size_t position;
    const char* message;
  } rows[] = {{"[z-a]", 1, "the range z-a goes down"},
              {"[!b-c9-0]", 5, "the range 9-0 goes down"},
              {"[[:foo:]]", 1, "there is no class [:foo:]"},
              {"[a[:Alpha:]]", 2, "there is no class [:Alpha:]"},
              {"[a-[:alpha:]]", 1, "the range a-[ goes down"}};
  for (const auto& row : rows) {
    try {
      check_glob_bracket(row.text, 0);
      ADD_FAILURE() << row.text << " was taken";
    } catch (const PatternError& error) {
      EXPECT_EQ(error.position(), row.position) << row.text;
      EXPECT_STREQ(error.what(), row.message);
    }
  }
  for (const char* good : {"[a-z]", "[a-a]", "[[:alpha:]]", "[]-a]", "[a-]", "[!-a]", "[a\\-\\z]"})
    EXPECT_NO_THROW(check_glob_bracket(good, 0)) << good;
}

TEST(Pattern, OnlyPlainTextHasALiteralName) {
  EXPECT_EQ(Pattern::literal("a*b").literal_name(), "a*b");
  EXPECT_EQ(Pattern::glob("malloc").literal_name(), "malloc");
  EXPECT_EQ(Pattern::glob("mall?c").literal_name(), std::nullopt);
  EXPECT_EQ(Pattern::regex("malloc").literal_name(), std::nullopt);
  EXPECT_EQ(Pattern::any().literal_name(), std::nullopt);
}

TEST(Pattern, KnowsWhenItMatchesEverything) {
  EXPECT_TRUE(Pattern::any().matches_everything());
  EXPECT_TRUE(Pattern::glob("*").matches_everything());
  EXPECT_FALSE(Pattern::glob("a*").matches_everything());
  EXPECT_TRUE(Pattern::any().matches("x"));
  EXPECT_TRUE(Pattern::literal("*").matches("*"));
  EXPECT_FALSE(Pattern::literal("*").matches("x"));
}

TEST(Pattern, CopiesShareTheCompiledForm) {
  Pattern copy = Pattern::any();
  {
    Pattern original = Pattern::regex("m.*c");
    copy = original;
  }
  EXPECT_TRUE(copy.matches("malloc"));
  EXPECT_EQ(copy.text(), "m.*c");
}

std::string times(int count, std::string_view piece) {
  std::string all;
  for (int i = 0; i < count; ++i) all += piece;
  return all;
}

TEST(Regex, RepetitionsThatMultiplyAreRefused) {
  for (const std::string& text :
       {std::string("((a{255}){255}){255}"), "a" + times(40, "+"), std::string("(ab){0,9999}"),
        "(" + times(20, "a") + "){300}", std::string("(a{200})*{200}"), std::string("a{255}{255}{255}"),
        std::string("a{200}*{200}"), std::string("[\\]((a{255}){255}){255}]"),
        std::string("[!]((a{255}){255}){255}]")})
    EXPECT_THROW(Pattern::regex(text), Error) << text;
  EXPECT_THROW(Pattern::basic_regex("\\(a\\{200\\}\\)\\{200\\}"), Error);
  EXPECT_THROW(Pattern::basic_regex("a\\{200\\}\\{200\\}"), Error);
}

TEST(Regex, PiecesThatMayBePassedInTwoWaysAreFew) {
  for (const std::string& text : {"=" + times(54, "*") + "m", "^" + times(40, "(") + "a" + times(40, "*)"),
                                  "(" + times(30, "a*?") + ")*", "(" + times(30, "(a*|b*)") + ")*",
                                  "(" + times(30, "(a*)?") + ")*", std::string("((a*?b*?c*?){20})*")})
    EXPECT_THROW(Pattern::regex(text), Error) << text;
  for (const char* text :
       {"(foo.*|bar.*)+", "((a|b)*|(c|d)*)*(e+)?", "x.*?y.*?z.*?", "(rb_[a-z]+(_[a-z]+)*)(@.*)?",
        "([a-z]+_){2,9}[0-9]+", "([0-9]{1,3}\\.){3}[0-9]{1,3}", "^(_*(x|y)?)*$", "(|a|b)c",
        "(\\w*\\s*){1,10}", "(a*b*){0,12}", "x.*?y.*?z.*?x.*?y.*?z.*?x.*?y.*?z.*?"})
    EXPECT_NO_THROW(Pattern::regex(text)) << text;
}

TEST(Regex, RepetitionsAreOrdinary) {
  EXPECT_TRUE(Pattern::regex("[a{]{2,3}(b|c)+x{20}").matches("a{bcb" + std::string(20, 'x')));
  EXPECT_TRUE(Pattern::regex("(a*)*b*?c?").matches("aab"));
  EXPECT_TRUE(Pattern::basic_regex("a+++++++++++++++++++++++++").matches("a+++++++++++++++++++++++++"));
}

}  // namespace
}  // namespace rtrace::pattern_test
