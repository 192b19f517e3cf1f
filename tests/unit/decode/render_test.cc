#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "rtrace/decode/record.h"
#include "rtrace/decode/value.h"

namespace rtrace::decode::render_test {
namespace {

Value text(std::string bytes) {
  Value value;
  value.kind = Value::Kind::string;
  value.bytes = std::move(bytes);
  return value;
}

struct Row {
  std::string bytes;
  std::string plain;
  std::string utf8;
};
class StringText : public testing::TestWithParam<Row> {};
TEST_P(StringText, EscapesAllThatATerminalWouldObey) {
  EXPECT_EQ(to_text(text(GetParam().bytes)), GetParam().plain);
  EXPECT_EQ(to_text(text(GetParam().bytes), {.struct_names = false, .utf8 = true}), GetParam().utf8);
}
using namespace std::string_literals;
INSTANTIATE_TEST_SUITE_P(Render, StringText,
                         testing::Values(Row{"a\"b\\", R"("a\"b\\")", R"("a\"b\\")"},
                                         Row{"\a\b\t\n\v\f\r", R"("\a\b\t\n\v\f\r")", R"("\a\b\t\n\v\f\r")"},
                                         Row{"\x1b[31m\x7f", R"("\033[31m\177")", R"("\033[31m\177")"},
                                         Row{"\0x\0001"s, R"("\0x\0001")", R"("\0x\0001")"},
                                         Row{"\xc3\xa4", R"("\303\244")", "\"\xc3\xa4\""},
                                         Row{"\xc2\x9b", R"("\302\233")", R"("\302\233")"},
                                         Row{"\xc0\xaf\xed\xa0\x80\xf5\xe4",
                                             R"("\300\257\355\240\200\365\344")",
                                             R"("\300\257\355\240\200\365\344")"}));

TEST(Shorten, CutsStringsWhereverTheyStand) {
  Value value = text("abcdef");
  Value outer;
  outer.kind = Value::Kind::structure;
  outer.members = {value, text("abc")};
  shorten(outer, 3);
  EXPECT_EQ(to_text(outer), "{ \"abc\"..., \"abc\" }");
  for (const auto& [size, kept] :
       {std::pair<int, const char*>{2, "\xc3\xa4"}, {4, "\xc3\xa4\xf0\x9f\x98\x80"}}) {
    Value wide = text("\xc3\xa4\xf0\x9f\x98\x80z");  // an umlaut, a surrogate pair's character, a letter
    wide.size = static_cast<uint8_t>(size);
    shorten(wide, size == 2 ? 1 : 2);
    EXPECT_EQ(wide.bytes, kept);
    EXPECT_TRUE(wide.cut);
    shorten(wide, 9);
    EXPECT_EQ(wide.bytes, kept);
  }
}

TEST(Render, NoByteComesOutAsAControlCharacter) {
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  for (bool utf8 : {false, true}) {
    for (char c : to_text(text(all), {.struct_names = false, .utf8 = utf8}))
      EXPECT_TRUE(c >= ' ' && c < 0x7f);
  }
  for (unsigned i = 0; i < 256; ++i) {
    Value value;
    value.kind = Value::Kind::character;
    value.raw = i;
    for (char c : to_text(value)) EXPECT_TRUE(c >= ' ' && c < 0x7f) << i;
  }
}

TEST(Rendering, WhatTurnsTextRoundIsEscaped) {
  for (const std::string mark : {"\342\200\256", "\342\201\247", "\357\273\277"})
    EXPECT_EQ(to_text(text("a" + mark + "b"), {.struct_names = false, .utf8 = true}),
              to_text(text("a" + mark + "b"), {.struct_names = false, .utf8 = false}));
  EXPECT_EQ(to_text(text("\342\202\254"), {.struct_names = false, .utf8 = true}), "\"\342\202\254\"");
}

TEST(Rendering, ALimitWithinACharacterLeavesTheCharacterAway) {
  Value value = text("ab\303\244\342\202");
  EXPECT_EQ(to_text(value, {.struct_names = false, .utf8 = true}), "\"ab\303\244\\342\\202\"");
  value.cut = true;
  EXPECT_EQ(to_text(value, {.struct_names = false, .utf8 = true}), "\"ab\303\244\"...");
  EXPECT_EQ(to_text(value, {.struct_names = false, .utf8 = false}), "\"ab\\303\\244\\342\\202\"...");
}

TEST(Render, TheWorkingDirectoryAsADescriptorHasItsName) {
  Value value;
  value.kind = Value::Kind::integer;
  value.is_signed = true;
  value.raw = static_cast<uint64_t>(int64_t{-100});
  EXPECT_EQ(to_text(value), "-100");
  value.is_descriptor = true;
  EXPECT_EQ(to_text(value), "AT_FDCWD");
  value.text = "/tmp";
  EXPECT_EQ(to_text(value), "AT_FDCWD</tmp>");
}

TEST(Render, WhatLiesBehindADescriptorFollowsItInBrackets) {
  auto shown = [](std::string behind) {
    Value value;
    value.kind = Value::Kind::integer;
    value.is_descriptor = true;
    value.raw = 3;
    value.text = std::move(behind);
    return to_text(value);
  };
  EXPECT_EQ(shown(""), "3");
  EXPECT_EQ(shown("/tmp/x (deleted)"), "3</tmp/x (deleted)>");
  EXPECT_EQ(shown("/tmp/a->b<\n"), R"(3</tmp/a-\>b\<\n>)");
  EXPECT_EQ(shown("TCP:[127.0.0.1:5->127.0.0.1:6]"), "3<TCP:[127.0.0.1:5->127.0.0.1:6]>");
  EXPECT_EQ(shown("UNIX:[77->/a>b]"), R"(3<UNIX:[77->/a\>b]>)");
}

TEST(Render, OneValueIsBoundedByMaxLineAndOnlyItself) {
  std::string out = "before ";
  append_text(out, text(std::string(100000, 'x')), {.struct_names = false, .utf8 = false, .max_line = 100});
  EXPECT_EQ(out, "before \"" + std::string(99, 'x') + "\"...");
  Value wide;
  wide.kind = Value::Kind::structure;
  wide.members.assign(10000, text("abc"));
  EXPECT_LE(to_text(wide, {.struct_names = false, .utf8 = false, .max_line = 100}).size(), 103U);
  EXPECT_LE(to_text(text(std::string(1000, '\xff')), {}).size(), 4099U);
}

TEST(Render, StructNamesStandBeforeMembersThatHaveThem) {
  Value structure;
  structure.kind = Value::Kind::structure;
  structure.members = {text("x"), text("y"), text("z")};
  structure.members[0].name = "first";
  structure.members[1].kind = Value::Kind::hidden;
  EXPECT_EQ(to_text(structure), "{ \"x\", \"z\" }");
  EXPECT_EQ(to_text(structure, {.struct_names = true, .utf8 = false}), "{ first=\"x\", \"z\" }");
}

TEST(Render, DescriptorShowsTheFileBehindItWithoutControlCharacters) {
  Value value;
  value.kind = Value::Kind::integer;
  value.raw = 3;
  value.text = "/tmp/a\x1b>b";
  EXPECT_EQ(to_text(value), R"(3</tmp/a\033\>b>)");
}

ProbeLabel label(const std::string& object, const std::string& caller) {
  ProbeLabel made;
  made.name = "f";
  made.object = object;
  made.caller = caller;
  return made;
}

TEST(ProbeLabel, SaysWhereTheFunctionIsAndWhoCalls) {
  ProbeLabel entry = label("libb.so", "");
  EXPECT_EQ(entry.text(), "f@libb.so");
  EXPECT_EQ(label("", "").text(), "f");
  ProbeLabel call = label("libb.so", "liba.so");
  call.kind = ProbeLabel::Kind::call_site;
  EXPECT_EQ(call.text(), "liba.so->f");
  call.caller.clear();
  EXPECT_EQ(call.text(), "f");
  entry.clone = true;
  EXPECT_EQ(entry.text(), "f@libb.so~");
}

TEST(CutText, AStringIsClosedAndNoEscapeIsHalved) {
  const auto cut = [](std::string text, size_t end) {
    cut_text(text, 0, end);
    return text;
  };
  EXPECT_EQ(cut(R"({ "abc", 12 })", 4), R"({ "a"...)");
  EXPECT_EQ(cut(R"({ "abc", 12 })", 7), R"({ "abc"...)");
  EXPECT_EQ(cut(R"({ "abc", 12 })", 10), R"({ "abc", 1...)");
  EXPECT_EQ(cut(R"("a\"bc")", 3), R"("a"...)");
  EXPECT_EQ(cut(R"("a\"bc")", 4), R"("a\""...)");
  for (size_t end : {2u, 3u, 4u, 5u}) EXPECT_EQ(cut(R"("a\3034")", end), R"("a"...)") << end;
  EXPECT_EQ(cut(R"("a\3034")", 6), R"("a\303"...)");
  EXPECT_EQ(cut(R"('\n' 7)", 2), R"(''...)");
  EXPECT_EQ(cut(R"(3</a"b> 45)", 9), R"(3</a"b> 4...)");
}

}  // namespace
}  // namespace rtrace::decode::render_test
