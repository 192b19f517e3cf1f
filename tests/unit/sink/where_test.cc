#include "rtrace/sink/where.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cerrno>

#include "rtrace/proto/type.h"

namespace rtrace::sink::where_test {
namespace {

using decode::Argument;
using decode::Value;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Value value_of(Value::Kind kind, uint64_t raw = 0, bool is_signed = false) {
  Value value;
  value.kind = kind;
  value.raw = raw;
  value.is_signed = is_signed;
  return value;
}

Value text_of(std::string bytes) {
  Value value = value_of(Value::Kind::string);
  value.bytes = std::move(bytes);
  return value;
}

Value with_text(Value value, std::string text) {
  value.text = std::move(text);
  return value;
}

Value structure_of(std::vector<std::pair<std::string, Value>> members) {
  Value value = value_of(Value::Kind::structure);
  for (auto& [name, member] : members) {
    member.name = name;
    value.members.push_back(member);
  }
  return value;
}

Value real_of(long double number) {
  Value value = value_of(Value::Kind::floating);
  value.number = number;
  return value;
}

// open(path = "/etc/passwd", flags = 0x41, mode = O_EXCL, buf = {st_size = 4097, inner = {name = "in"}},
// nothing = nil, at = unreadable 0xdead, bits = 2.5, key = SEEK_SET 0, letter = 'x', big = 2^64-1) = -1
// ENOENT <5ms>
class WhereTest : public ::testing::Test {
 protected:
  WhereTest() {
    using Kind = Value::Kind;
    failure_ = value_of(Kind::error_result, ENOENT);
    failure_.members = {value_of(Kind::integer, ~uint64_t{0}, true)};
    Value changed = value_of(Kind::changed);
    changed.members = {value_of(Kind::integer, 1), value_of(Kind::integer, 2)};
    entry_ = {{"path", "string", text_of("/etc/passwd")},
              {"flags", "int", value_of(Kind::integer, 0x41, true)},
              {"buf", "struct",
               structure_of({{"st_size", value_of(Kind::integer, 4097)},
                             {"inner", structure_of({{"name", text_of("in")}})}})},
              {"nothing", "addr", value_of(Kind::nil)},
              {"at", "addr", value_of(Kind::unreadable, 0xdead)},
              {"lost", "string", value_of(Kind::unreadable)},
              {"bits", "double", real_of(2.5L)},
              {"key", "enum", with_text(value_of(Kind::enumeration, 0), "SEEK_SET")}};
    return_ = {{"letter", "char", value_of(Kind::character, 'x')},
               {"big", "ulong", value_of(Kind::integer, ~uint64_t{0})},
               {"count", "int", changed}};
    facts_.name = "open";
    facts_.tid = 77;
    facts_.depth = 3;
    facts_.duration = 5'000'000;
    facts_.at_entry = entry_;
    facts_.at_return = return_;
    facts_.result = &failure_;
    facts_.error = ENOENT;
  }

  std::vector<Argument> entry_, return_;
  Value failure_;
  CallFacts facts_;
};

TEST_F(WhereTest, IsTrueOfTheCall) {
  for (const char* text : {"1",
                           "!0",
                           "arg2 == 65",
                           "arg2 == 0x41",
                           "arg2 == 0101",
                           "flags & 1",
                           "flags & 0x40 == 0x40",
                           "(flags | 2) == 67",
                           "arg2 + 1 == 66",
                           "arg2 - 1 == 64",
                           "-arg2 == -65",
                           "arg2 > 64 && arg2 <= 65",
                           "ret == -1",
                           "ret < 0",
                           "errno",
                           "errno == ENOENT",
                           "errno == 2",
                           "errno != EACCES",
                           "dur >= 5ms",
                           "dur < 5.1ms",
                           "dur == 5000us",
                           "dur > 4999999ns",
                           "dur < 1s",
                           "dur == 5000000",
                           "path == \"/etc/passwd\"",
                           "path == '/etc/passwd'",
                           "path != 'x'",
                           "path ~ /^\\/etc\\//",
                           "path ~ /pass/",
                           "path !~ /shadow/",
                           "path ~ /^.etc.(passwd|group)$/",
                           "path != 0",
                           "!(path == 0)",
                           "buf != 0",
                           "buf",
                           "buf.inner != 0 && !(buf.inner == 0)",
                           "buf.st_size > 4096",
                           "arg3.st_size == 4097",
                           "buf.inner.name == \"in\"",
                           "buf.inner.name ~ /n$/",
                           "nothing == 0",
                           "!nothing",
                           "at == 0xdead",
                           "bits == 2.5",
                           "bits > 2",
                           "bits + 1 == 3.5",
                           "key == \"SEEK_SET\"",
                           "key == 0",
                           "key ~ /SEEK/",
                           "letter == 'x'",
                           "letter == 120",
                           "big == -1",
                           "big > 0",
                           "big == 0xffffffffffffffff",
                           "count == 2",
                           "name == \"open\"",
                           "name ~ /^o/",
                           "tid == 77",
                           "depth == 3",
                           "depth > 2 || nonsense",
                           "arg9 == 'x'",
                           "path",
                           "0 || 1 && 1",
                           "1 || 1 && 0",
                           "!(1 && 0)",
                           " ( ( 1 ) ) ",
                           "1==1&&2==2",
                           "'a\\x41\\101\\n' == \"aAA\\n\""})
    EXPECT_TRUE(Where::parse(text).holds(facts_).holds) << text;
}

TEST_F(WhereTest, IsNotTrueOfTheCall) {
  for (const char* text : {"0", "arg2 != 65", "arg2 == 66", "ret == 0", "dur > 5ms", "path == 'x'",
                           "path == 0", "buf == 0", "!buf", "path ~ /^passwd/", "errno == EACCES",
                           "errno != ENOENT", "nothing", "big < 0", "1 && 0", "name != 'open'"})
    EXPECT_FALSE(Where::parse(text).holds(facts_).holds) << text;
}

// Neither true nor false: what is unknown stays so through negation.
TEST_F(WhereTest, WhatTheCallHasNotIsNeitherTrueNorFalse) {
  for (const char* what :
       {"unheard", "arg12", "lost", "buf.gone", "buf == 7", "buf < 1", "unheard == 1", "arg12 != 1",
        "lost ~ /x/", "lost !~ /x/", "path < 3", "path & 1", "bits & 1", "unheard + 1 > 0",
        "unheard == 1 && 1", "unheard || 0", "path.x == 1", "-unheard"}) {
    EXPECT_FALSE(Where::parse(what).holds(facts_).holds) << what;
    EXPECT_FALSE(Where::parse(fmt::format("!({})", what)).holds(facts_).holds) << what;
  }
  EXPECT_TRUE(Where::parse("!(unheard && 0)").holds(facts_).holds);
}

TEST_F(WhereTest, ACallThatDidNotReturnHasNoResultAndNoError) {
  facts_.result = nullptr;
  facts_.duration.reset();
  facts_.error = 0;
  for (const char* text : {"ret == 0", "ret != 0", "dur > 0", "dur < 1s", "errno"})
    EXPECT_FALSE(Where::parse(text).holds(facts_).holds) << text;
  EXPECT_TRUE(Where::parse("!errno").holds(facts_).holds);
}

TEST_F(WhereTest, AStringOfWhichTooLittleWasReadIsNeitherLikeNorUnlike) {
  Value start = text_of("SELECT a");
  start.cut = true;
  facts_.result = &start;
  for (const char* text :
       {"ret ~ /^SELECT a/", "ret != 'SELECT a'", "ret != 'SELECT'", "ret != 'INSERT INTO t'",
        "!(ret == 'SELECT a')", "ret !~ /x/ || 1", "ret ~ /a/ && 1"})
    EXPECT_TRUE(Where::parse(text).holds(facts_).holds) << text;
  for (const char* text : {"ret == 'SELECT a'", "ret == 'SELECT'", "ret == 'INSERT INTO t'"}) {
    EXPECT_FALSE(Where::parse(text).holds(facts_).holds) << text;
    EXPECT_FALSE(Where::parse(text).holds(facts_).cut) << text;
  }
  for (const char* text : {"ret == 'SELECT a, b'", "ret != 'SELECT a, b'", "ret ~ /b/", "ret !~ /b/",
                           "ret ~ /a$/", "!(ret ~ /b/)", "ret == ret", "ret ~ /b/ && 1"}) {
    const auto answer = Where::parse(text).holds(facts_);
    EXPECT_FALSE(answer.holds) << text;
    EXPECT_TRUE(answer.cut) << text;
  }
  EXPECT_FALSE(Where::parse("ret ~ /b/ && 0").holds(facts_).cut);
}

TEST_F(WhereTest, AllOfAnIntegersBitsCount) {
  Value wide = value_of(Value::Kind::integer);
  wide.size = 16;
  wide.high = uint64_t{1} << 36;
  facts_.result = &wide;
  for (const char* text : {"ret != 0", "ret > 1", "ret > 18446744073709551615", "ret - 1 > 0"})
    EXPECT_TRUE(Where::parse(text).holds(facts_).holds) << text;
  wide.raw = wide.high = ~uint64_t{0};
  wide.is_signed = true;
  EXPECT_TRUE(Where::parse("ret == -1").holds(facts_).holds);
  wide.is_signed = false;
  wide.high = ~uint64_t{0} >> 1;  // no sum of it may be undefined
  EXPECT_TRUE(Where::parse("ret != 0 && ret + ret + ret != 5").holds(facts_).holds);
}

TEST(WhereText, IsReadWhereAStringOfTheCallMayBeCompared) {
  for (const char* text : {"arg1 ~ /x/", "path !~ /x/", "!(ret == 'x')", "a == b", "dur > 1s && 'x' != arg2"})
    EXPECT_TRUE(Where::parse(text).reads_text()) << text;
  for (const char* text : {"arg1 == 2", "name ~ /x/", "name == 'x'", "arg1 < arg2", "ret", "dur > 5ms"})
    EXPECT_FALSE(Where::parse(text).reads_text()) << text;
}

TEST_F(WhereTest, TheEndOfFileOfACharacterIsMinusOne) {
  Value eof = value_of(Value::Kind::character);
  eof.is_eof = true;
  facts_.result = &eof;
  EXPECT_TRUE(Where::parse("ret == -1").holds(facts_).holds);
}

struct Bad {
  const char* text;
  size_t position;
  const char* message;
};

TEST(WhereErrors, SayWhatIsExpectedAndWhere) {
  const Bad rows[] = {{"", 0, "something is missing"},
                      {"arg1 ==", 7, "something is missing"},
                      {"arg1 = 2", 5, "== is expected"},
                      {"arg1 2", 5, "an operator is expected"},
                      {"arg0 == 1", 0, "count from arg1"},
                      {"arg9999 == 1", 0, "that many"},
                      {"1 < arg1 < 3", 9, "do not chain"},
                      {"(arg1 == 1", 0, "a ) is missing"},
                      {"(arg1 1)", 6, "a ) is missing"},
                      {"path < \"x\"", 5, "== and != alone"},
                      {"path ~ \"x\"", 7, "/regex/ is expected"},
                      {"path ~ /(/", 8, "/(/"},
                      {"path ~ /\\/x|[z-a]/", 15, "range end"},
                      {"path ~ /x", 7, "does not end"},
                      {"path == \"x", 8, "does not end"},
                      {"path == 'x\\", 10, "does not end"},
                      {"/x/ ~ path", 0, "stands behind ~"},
                      {"dur > 5parsecs", 6, "no number, and no duration"},
                      {"dur > 5.5.5", 6, "no number"},
                      {"dur > 0x", 6, "no number"},
                      {"arg2 == 018", 8, "no number"},
                      {"arg2 == 18446744073709551616", 8, "no number"},
                      {"buf. == 1", 4, "name of a member"},
                      {"dur.x == 1", 0, "dur has no members"},
                      {"arg1 == @", 8, "is expected"},
                      {"arg1 ==\n2", 7, "is expected"}};
  for (const Bad& row : rows) {
    try {
      Where::parse(row.text);
      ADD_FAILURE() << row.text;
    } catch (const WhereError& error) {
      EXPECT_EQ(error.position(), row.position) << row.text;
      EXPECT_THAT(error.what(), HasSubstr(row.message)) << row.text;
      EXPECT_EQ(std::count(error.what(), error.what() + std::string_view(error.what()).size(), '\n'), 2);
    }
  }
}

TEST(WhereErrors, DepthAndLengthAreBounded) {
  EXPECT_THROW(Where::parse(std::string(3000, '(')), WhereError);
  EXPECT_THROW(Where::parse(std::string(3000, '!') + "1"), WhereError);
  std::string sum = "1";
  while (sum.size() < 3900) sum += "+1";
  EXPECT_TRUE(Where::parse(sum + "> 1").holds({}).holds);
  EXPECT_THROW(Where::parse(sum + sum), WhereError);
}

TEST(WhereNames, AreThoseThatOnlyAPrototypeHas) {
  EXPECT_THAT(
      Where::parse("path ~ /x/ && buf.st_size > arg1 + ret && path == 'p' && errno == ENOENT && tid").names(),
      ElementsAre(Where::Name{"path", true}, Where::Name{"buf", false}));
}

// f(mode = O_RDWR|O_APPEND, whence = SEEK_END, at = {kind = SEEK_CUR}, O_TRUNC = 7) = SEEK_SET
class WhereKeysTest : public ::testing::Test {
 protected:
  WhereKeysTest() {
    const auto integer = proto::make_integer(4, true);
    open_ = proto::make_flags(
        integer,
        {{"O_RDWR", 2, 3}, {"O_CREAT", 0x40}, {"O_APPEND", 0x400}, {"O_TRUNC", 0x200}, {"TOP", 1LL << 31}});
    seek_ =
        proto::make_enumeration(integer, {{"SEEK_SET", 0}, {"SEEK_CUR", 1}, {"SEEK_END", 2}, {"NONE", -1}});
    result_ = keyed(seek_, Value::Kind::enumeration, 0);
    set(0x402, 2);
    facts_.result = &result_;
  }
  void set(uint64_t mode, uint64_t whence) {
    entry_ = {{"mode", "flags", keyed(open_, Value::Kind::flags, mode)},
              {"whence", "enum", keyed(seek_, Value::Kind::enumeration, whence)},
              {"at", "struct", structure_of({{"kind", keyed(seek_, Value::Kind::enumeration, 1)}})},
              {"O_TRUNC", "int", value_of(Value::Kind::integer, 7)}};
    facts_.at_entry = entry_;
  }
  static Value keyed(const proto::TypeRef& type, Value::Kind kind, uint64_t raw) {
    Value value = value_of(kind, raw, true);
    value.size = 4;
    value.keyed_by = type.get();
    return value;
  }

  proto::TypeRef open_, seek_;
  std::vector<Argument> entry_;
  Value result_;
  CallFacts facts_;
};

TEST_F(WhereKeysTest, AreNumbersWhereTheirTypeStands) {
  for (const char* text :
       {"mode & O_APPEND", "!(mode & O_CREAT)", "(mode & O_CREAT) == 0", "mode == O_RDWR | O_APPEND",
        "O_APPEND & arg1", "(mode & (O_APPEND|O_CREAT)) == O_APPEND", "mode != O_APPEND",
        "whence == SEEK_END", "arg2 > SEEK_CUR", "SEEK_END == whence && mode & O_APPEND",
        "at.kind == SEEK_CUR", "ret == SEEK_SET", "ret != SEEK_END", "whence - SEEK_CUR == 1"})
    EXPECT_TRUE(Where::parse(text).holds(facts_).holds) << text;
}

TEST_F(WhereKeysTest, AreUnknownWhereItDoesNot) {
  for (const char* text : {"mode & SEEK_END", "whence == O_CREAT", "mode & O_APPEND && SEEK_END",
                           "tid == SEEK_SET", "whence == SEEK_END.x", "mode & NOSUCH"})
    for (const std::string& either : {std::string(text), fmt::format("!({})", text)})
      EXPECT_FALSE(Where::parse(either).holds(facts_).holds) << either;
}

TEST_F(WhereKeysTest, AParameterOfThatNameGoesFirst) {
  EXPECT_TRUE(Where::parse("O_TRUNC == 7").holds(facts_).holds);
  EXPECT_FALSE(Where::parse("mode & O_TRUNC & 0x200").holds(facts_).holds);
}

TEST_F(WhereKeysTest, AreAsWideAndAsSignedAsTheValue) {
  set(~uint64_t{0x7fffffff}, ~uint64_t{0});
  EXPECT_TRUE(Where::parse("mode == TOP").holds(facts_).holds);
  EXPECT_TRUE(Where::parse("whence == NONE").holds(facts_).holds);
}

}  // namespace
}  // namespace rtrace::sink::where_test
