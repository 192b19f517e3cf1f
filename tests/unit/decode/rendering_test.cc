// The manual's table of how values are printed, row by row: {type, what lies where, text}.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "rtrace/decode/call_decoder.h"
#include "rtrace/proto/parser.h"

namespace rtrace::decode::rendering_test {
namespace {

constexpr uint64_t kStack = 0x7ffc00000ff8;
constexpr uint64_t kInts = 0x20000;    // 1 2 3 4 5 6
constexpr uint64_t kText = 0x21000;    // a"\<escape>
constexpr uint64_t kLong = 0x22000;    // 40 letters
constexpr uint64_t kBytes = 0x23000;   // a\0b
constexpr uint64_t kSelf = 0x24000;    // struct { long 7; self* }
constexpr uint64_t kFirst = 0x25000;   // struct { long 1; second* }, second { long 2; first* }
constexpr uint64_t kCut = 0x26ffc;     // "abcd", and then no page
constexpr uint64_t kUtf8 = 0x28000;    // "\u00e4"
constexpr uint64_t kWide = 0x29000;    // L"\u00e4"
constexpr uint64_t kInside = 0x2a000;  // char[8] "ab\0cdefg"
constexpr uint64_t kWild = 0xdead0000;
constexpr uint64_t kMinusOne = ~uint64_t{0};

BufferMemory tracee() {
  BufferMemory memory;
  memory.add_value({kStack}, std::array<uint64_t, 2>{0x401000, 0});
  memory.add_value({kInts}, std::array<int32_t, 6>{1, 2, 3, 4, 5, 6});
  memory.add({kText}, std::string_view("a\"\\\x1b\0", 5));
  memory.add({kLong}, std::string_view("abcdefghijklmnopqrstuvwxyzabcdefghijklmn\0", 41));
  memory.add({kBytes}, std::string_view("a\0b\0\0\0\0\0", 8));
  memory.add_value({kSelf}, std::array<uint64_t, 2>{7, kSelf});
  memory.add_value({kFirst}, std::array<uint64_t, 4>{1, kFirst + 16, 2, kFirst});
  memory.add({kCut}, "abcd");
  memory.add({kUtf8}, std::string_view("\xc3\xa4\0", 3));
  memory.add_value({kWide}, std::array<int32_t, 2>{0xe4, 0});
  memory.add({kInside}, std::string_view("ab\0cdefg", 8));
  return memory;
}

struct Row {
  std::string type;
  uint64_t value = 0;
  std::string text;
};
void PrintTo(const Row& row, std::ostream* out) {
  *out << row.type << " of " << row.value;
}

std::shared_ptr<const proto::Prototype> prototype_of(const std::string& line) {
  proto::Diagnostics diagnostics;
  auto file = proto::parse_conf("typedef node = struct;\ntypedef node = struct(long, node*);\n" + line, "t",
                                {}, diagnostics);
  EXPECT_THAT(diagnostics, testing::IsEmpty());
  return file.functions.empty() ? nullptr : file.functions.begin()->second;
}

class PrintedValue : public testing::TestWithParam<Row> {};
TEST_P(PrintedValue, IsPrintedAsTheTableSays) {
  const BufferMemory memory = tracee();
  arch::Regs regs;
  regs.raw.rsp = kStack;
  regs.raw.rdi = GetParam().value;
  regs.raw.rsi = 3;
  arch::VectorRegs vectors;
  const double number = 1.5;
  std::memcpy(vectors.xmm[0].data(), &number, sizeof number);
  CallDecoder decoder(prototype_of("void f(" + GetParam().type + ", hide(int));"),
                      {.string = 32, .array = 4});
  const auto entered = decoder.enter(regs, memory, &vectors);
  ASSERT_EQ(entered.arguments.size(), 2U);
  EXPECT_EQ(to_text(entered.arguments[0].value), GetParam().text);
}

INSTANTIATE_TEST_SUITE_P(
    Numbers, PrintedValue,
    testing::Values(Row{"int", 0xfffffff9, "-7"}, Row{"uint", 0xfffffff9, "4294967289"},
                    Row{"long", kMinusOne, "-1"}, Row{"ulong", kMinusOne, "18446744073709551615"},
                    Row{"schar", 0xff, "-1"}, Row{"uint8", 0xff, "255"}, Row{"guess(long)", 10000, "10000"},
                    Row{"guess(long)", 10001, "0x2711"}, Row{"guess(long)", uint64_t(-10000), "-10000"},
                    Row{"guess(long)", uint64_t(-10001), "0xffffffffffffd8ef"}, Row{"hex(int)", 31, "0x1f"},
                    Row{"hex(int)", 0, "0"}, Row{"oct(int)", 31, "037"}, Row{"oct(int)", 0, "0"},
                    Row{"double", 0, "1.500000"}, Row{"hex(double)", 0, "0x1.8p+0"},
                    Row{"bool(int)", 1, "true"}, Row{"bool(int)", 0, "false"}));

INSTANTIATE_TEST_SUITE_P(Characters, PrintedValue,
                         testing::Values(Row{"char", 'x', "'x'"}, Row{"char", 0, "'\\0'"},
                                         Row{"char", 7, "'\\a'"}, Row{"char", 8, "'\\b'"},
                                         Row{"char", 9, "'\\t'"}, Row{"char", 10, "'\\n'"},
                                         Row{"char", 11, "'\\v'"}, Row{"char", 12, "'\\f'"},
                                         Row{"char", 13, "'\\r'"}, Row{"char", '\\', "'\\\\'"},
                                         Row{"char", '\'', "'\\''"}, Row{"char", '"', "'\"'"},
                                         Row{"char", 27, "'\\033'"}, Row{"char", 0xff, "'\\377'"}));

INSTANTIATE_TEST_SUITE_P(
    Pointers, PrintedValue,
    testing::Values(Row{"addr", 0, "nil"}, Row{"int*", 0, "nil"}, Row{"string", 0, "nil"},
                    Row{"addr", 255, "0xff"}, Row{"void*", 255, "0xff"}, Row{"int*", kInts, "1"},
                    Row{"int*", kWild, "0xdead0000"}, Row{"string", kWild, "0xdead0000"},
                    Row{"string(int)", kWild, "0xdead0000"}, Row{"struct(int)*", kWild, "0xdead0000"},
                    Row{"buffer[arg2]", kWild, "0xdead0000"}, Row{"array(int, 2)*", kWild, "0xdead0000"},
                    Row{"struct(struct(int, int)*)*", kSelf + 8, "{ { 7, 0 } }"},
                    Row{"node*", kSelf, "{ 7, recurse }"}, Row{"node*", kFirst, "{ 1, { 2, recurse^ } }"}));

INSTANTIATE_TEST_SUITE_P(
    Sequences, PrintedValue,
    testing::Values(Row{"struct(int, int)*", kInts, "{ 1, 2 }"},
                    Row{"struct(int, hide(int), int)*", kInts, "{ 1, 3 }"}, Row{"struct()*", kInts, "{ }"},
                    Row{"array(int, 2)", kInts, "[ 1, 2 ]"}, Row{"array(int, 4)", kInts, "[ 1, 2, 3, 4 ]"},
                    Row{"array(int, 5)", kInts, "[ 1, 2, 3, 4... ]"}, Row{"array(int, 0)", kInts, "[ ]"},
                    Row{"array(int, arg2)", kInts, "[ 1, 2, 3 ]"}));

INSTANTIATE_TEST_SUITE_P(Texts, PrintedValue,
                         testing::Values(Row{"string", kText, R"("a\"\\\033")"},
                                         Row{"string", kLong, "\"abcdefghijklmnopqrstuvwxyzabcdef\"..."},
                                         Row{"string[3]", kLong, "\"abc\""},
                                         Row{"string", kCut, "\"abcd\"..."},
                                         Row{"string", kUtf8, R"("\303\244")"},
                                         Row{"string(int)", kWide, R"("\303\244")"},
                                         Row{"buffer[arg2]", kBytes, R"("a\0b")"},
                                         Row{"buffer[40]", kLong, "\"abcdefghijklmnopqrstuvwxyzabcdef\"..."},
                                         Row{"struct(string(array(char, 8)))*", kInside, "{ \"ab\" }"}));

INSTANTIATE_TEST_SUITE_P(
    Words, PrintedValue,
    testing::Values(Row{"enum(A, B)", 1, "B"}, Row{"enum(A, B)", 9, "9"},
                    Row{"flags(A=1, B=2)", 0x43, "A|B|0x40"}, Row{"flags(A=1)", 0x40, "0x40"},
                    Row{"flags(A=1)", 0, "0"}, Row{"flags(N=0, A=1)", 0, "N"},
                    Row{"flags(R=0/3, W=1/3, B=2/3, C=4)", 4, "R|C"},
                    Row{"flags(R=0/3, W=1/3, B=2/3, C=4)", 0, "R"},
                    Row{"flags(R=0/3, W=1/3, B=2/3, C=4)", 0xd, "W|C|0x8"},
                    Row{"flags(R=0/3, W=1/3, B=2/3, C=4)", 3, "0x3"}, Row{"flags(ALL=3, A=1)", 3, "ALL"},
                    Row{"bitvec(int)", 0x123, "<0-1,5,8>"}, Row{"bitvec(int)", 0xfffffffe, "~<0>"},
                    Row{"bitvec(int)", 0, "<>"}, Row{"bitvec(int)", 0xffffffff, "~<>"}));

std::string result_of(const std::string& text, uint64_t rax, bool narrow_char = false) {
  const BufferMemory memory = tracee();
  arch::Regs entry, exit;
  entry.raw.rsp = kStack;
  exit.raw.rax = rax;
  proto::Prototype prototype = *prototype_of(text);
  prototype.narrow_char = narrow_char;
  CallDecoder decoder(std::make_shared<proto::Prototype>(prototype), {});
  return to_text(decoder.leave(entry, exit, memory, {}).result);
}

TEST(Results, ArePrintedAsTheTableSays) {
  EXPECT_EQ(result_of("void f()", 7), "<void>");
  EXPECT_EQ(result_of("char f()", 0xffffffff), "EOF");
  EXPECT_EQ(result_of("char f()", 0xff), "'\\377'");
  EXPECT_EQ(result_of("char f()", 0xffffffff, true), "'\\377'");
  EXPECT_EQ(result_of("int f()", 0xffffffff), "-1");
  EXPECT_EQ(result_of("string f()", kLong), "\"abcdefghijklmnopqrstuvwxyzabcdef\"...");
  EXPECT_EQ(result_of("addr f()", 0), "nil");
}

TEST(Unreadable, IsAQuestionMarkWhereNoPointerIsKnown) {
  const BufferMemory memory = tracee();
  arch::Regs regs;
  regs.raw.rsp = kStack;
  CallDecoder decoder(prototype_of("void f(double);"), {});
  EXPECT_EQ(to_text(decoder.enter(regs, memory, nullptr).arguments.at(0).value), "?");
}

}  // namespace
}  // namespace rtrace::decode::rendering_test
