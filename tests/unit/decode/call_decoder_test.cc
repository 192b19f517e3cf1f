#include "rtrace/decode/call_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "rtrace/proto/parser.h"

namespace rtrace::decode::call_decoder_test {
namespace {

// What lies where in the tracee of these rows.
constexpr uint64_t kStack = 0x7ffc00000ff8;
constexpr uint64_t kText = 0x21000;      // "SELECT SLEEP(0.2)"
constexpr uint64_t kLong = 0x22000;      // 40 letters
constexpr uint64_t kBinary = 0x23000;    // a\0b\n"\\\x1b\xff, then NULs
constexpr uint64_t kNumbers = 0x24000;   // int32 1 2 3 4 5 0 0
constexpr uint64_t kPointers = 0x25000;  // kText, kShort, 0
constexpr uint64_t kShort = 0x26000;     // "hi"
constexpr uint64_t kNode = 0x27000;      // struct { int 7; node* } -> kNode2 -> kNode
constexpr uint64_t kNode2 = 0x27100;
constexpr uint64_t kCut = 0x28ffc;      // "abcd", and then no page
constexpr uint64_t kWide = 0x2a000;     // L"h\u00e4!"
constexpr uint64_t kSized = 0x2b000;    // struct { long 3; char* kLong }
constexpr uint64_t kFormats = 0x30000;  // one each 0x100
constexpr uint64_t kWild = 0xdead0000;

constexpr const char* kFormatTexts[] = {
    "%d %s %5.2f %%",
    "%-10s|%.3s|%*d",
    "%hhd %hd %ld %lld %zu %x %#o",
    "%2$s %1$d",
    "%.*s",
    "%c %p %n %m",
    "%Lf %d",
    "%d %d %d %d %d %d %d",
    "%Q %d",
    "%a %g",
    "%ls",
    "%.2ls|%.*S",
};

BufferMemory tracee() {
  BufferMemory memory;
  memory.add({kText}, std::string_view("SELECT SLEEP(0.2)\0", 18));
  memory.add({kLong}, std::string_view("abcdefghijklmnopqrstuvwxyzabcdefghijklmn\0", 41));
  memory.add({kBinary}, std::string_view("a\0b\n\"\\\x1b\xff\0\0\0\0\0\0\0\0", 16));
  memory.add_value({kNumbers}, std::array<int32_t, 7>{1, 2, 3, 4, 5, 0, 0});
  memory.add_value({kPointers}, std::array<uint64_t, 3>{kText, kShort, 0});
  memory.add({kShort}, std::string_view("hi\0", 3));
  memory.add_value({kNode}, std::array<uint64_t, 2>{7, kNode2});
  memory.add_value({kNode2}, std::array<uint64_t, 2>{8, kNode});
  memory.add({kCut}, "abcd");
  memory.add_value({kWide}, std::array<int32_t, 4>{'h', 0xe4, '!', 0});
  memory.add_value({kSized}, std::array<uint64_t, 2>{3, kLong});
  uint64_t at = kFormats;
  for (const char* text : kFormatTexts) {
    memory.add({at}, std::string_view(text, std::strlen(text) + 1));
    at += 0x100;
  }
  // The return address, and the stack arguments: 100, 101, ...
  memory.add_value({kStack}, std::array<uint64_t, 8>{0x401000, 100, 101, 102, 103, 104, 105, 106});
  return memory;
}

arch::VectorRegs doubles(std::vector<double> values) {
  arch::VectorRegs regs;
  for (size_t i = 0; i < values.size(); ++i) std::memcpy(regs.xmm[i].data(), &values[i], sizeof(double));
  return regs;
}

arch::Regs registers(const std::vector<uint64_t>& values) {
  arch::Regs regs;
  regs.raw.rsp = kStack;
  unsigned long long* slots[] = {&regs.raw.rdi, &regs.raw.rsi, &regs.raw.rdx,
                                 &regs.raw.rcx, &regs.raw.r8,  &regs.raw.r9};
  for (size_t i = 0; i < values.size(); ++i) *slots[i] = values[i];
  return regs;
}

struct Row {
  std::string prototype;  // empty: none is known
  std::vector<uint64_t> arguments;
  uint64_t result;
  std::string text;  // "(at entry; at return) = result", or "(all) = result"
  std::vector<double> vectors = {};
  size_t array_limit = 4;
};
void PrintTo(const Row& row, std::ostream* out) {
  *out << row.prototype;
}

std::string joined(const std::vector<Argument>& arguments) {
  std::string text;
  for (const Argument& argument : arguments) {
    if (argument.value.kind == Value::Kind::hidden) continue;
    text += (text.empty() ? "" : ", ") + to_text(argument.value);
  }
  return text;
}

std::shared_ptr<const proto::Prototype> prototype_of(const std::string& text) {
  if (text.empty()) return nullptr;
  proto::Diagnostics diagnostics;
  proto::ParsedFile file = proto::parse_conf(text, "t", {}, diagnostics);
  EXPECT_THAT(diagnostics, testing::IsEmpty());
  EXPECT_EQ(file.functions.size(), 1U);
  return file.functions.begin()->second;
}

std::string rendered(const Row& row) {
  BufferMemory memory = tracee();
  CallDecoder decoder(prototype_of(row.prototype), {32, row.array_limit});
  arch::Regs entry = registers(row.arguments);
  arch::VectorRegs vectors = doubles(row.vectors);
  auto entered = decoder.enter(entry, memory, &vectors);
  std::vector<std::byte> stack(decoder.at_entry().stack_bytes);
  stack.resize(memory.read({kStack + 8}, stack));
  arch::Regs exit;
  exit.raw.rax = row.result;
  auto returned = decoder.leave(entry, exit, memory, stack, {&vectors, &vectors, &entered.before, {}});
  std::string text = "(" + joined(entered.arguments);
  if (entered.more_at_return) text += "; " + joined(returned.arguments);
  return text + ") = " + to_text(returned.result);
}

class Call : public testing::TestWithParam<Row> {};
TEST_P(Call, IsRenderedAsTheManPageSays) {
  EXPECT_EQ(rendered(GetParam()), GetParam().text);
}

constexpr uint64_t kMinusOne = ~uint64_t{0};
constexpr uint64_t kIntMinusOne = 0xffffffff;

INSTANTIATE_TEST_SUITE_P(
    Integers, Call,
    testing::Values(
        Row{"int mysql_real_query(addr,string,ulong);",
            {0x21d01d0, kText, 17},
            0,
            "(0x21d01d0, \"SELECT SLEEP(0.2)\", 17) = 0"},
        Row{"int f(int, uint, long, ulong)",
            {kMinusOne, kMinusOne, kMinusOne, kMinusOne},
            kIntMinusOne,
            "(-1, 4294967295, -1, 18446744073709551615) = -1"},
        Row{"short f(short, ushort, schar, uint8)",
            {0xffff, 0xffff, 0xff, 0xff},
            0xffff,
            "(-1, 65535, -1, 255) = -1"},
        Row{"void f(hex(int), oct(int), hex(int), oct(int))",
            {31, 0755, 0, 0},
            0,
            "(0x1f, 0755, 0, 0) = <void>"},
        Row{"void f(hex(int), oct(short))", {kIntMinusOne, 0xffff}, 0, "(0xffffffff, 0177777) = <void>"},
        Row{"bool(int) f(bool(int), bool(addr))", {2, 0}, 1, "(true, false) = true"},
        Row{"void f(guess(addr), guess(addr), guess(addr), guess(addr))",
            {kText, kShort, 10000, kWild},
            0,
            "(\"SELECT SLEEP(0.2)\", 0x26000, 10000, 0xdead0000) = <void>"},
        Row{"void f(int, guess(void*), guess(addr)*)",
            {1, 0, kPointers},
            0,
            "(1, 0, \"SELECT SLEEP(0.2)\") = <void>"},
        Row{"void f(guess(long), guess(long), guess(int), guess(int))",
            {10000, 10001, 0xffffd8f0, 0xffffd8ef},
            0,
            "(10000, 0x2711, -10000, 0xffffd8ef) = <void>"},
        Row{"void f(int, hide(int), int)", {1, 2, 3}, 0, "(1, 3) = <void>"},
        Row{"void f(bitvec(uint8), bitvec(uint8), bitvec(uint8), bitvec(uint8))",
            {0, 0xff, 0xfe, 0x2},
            0,
            "(<>, ~<>, ~<0>, <1>) = <void>"},
        Row{"void f(bitvec(uint))", {0x123}, 0, "(<0-1,5,8>) = <void>"},
        Row{"char f(char, char, char, char)",
            {'x', '\n', 0, 0xff},
            kIntMinusOne,
            "('x', '\\n', '\\0', '\\377') = EOF"},
        Row{"char f(char, char, char)", {'\'', '\\', 27}, 0xff, "('\\'', '\\\\', '\\033') = '\\377'"},
        Row{"void f(enum(A,B=5), enum(A,B=5), enum(M=-1))", {0, 4, kIntMinusOne}, 0, "(A, 4, M) = <void>"},
        Row{"void f(flags(A=1,B=2,AB=3), flags(A=1), flags(A=1), flags(Z=0,A=1))",
            {0x43, 0x40, 0, 0},
            0,
            "(A|B|0x40, 0x40, 0, Z) = <void>"},
        Row{"fd f(fd)", {3}, kIntMinusOne, "(3) = -1"},
        Row{"addr f(addr, file)", {0, 0x1234}, 0, "(nil, 0x1234) = nil"},
        Row{"void f(int,int,int,int,int,int,int,long)",
            {1, 2, 3, 4, 5, 6},
            0,
            "(1, 2, 3, 4, 5, 6, 100, 101) = <void>"}));

INSTANTIATE_TEST_SUITE_P(
    Text, Call,
    testing::Values(
        Row{"string f(string, string)", {kShort, 0}, kText, "(\"hi\", nil) = \"SELECT SLEEP(0.2)\""},
        Row{"void f(string)", {kLong}, 0, "(\"abcdefghijklmnopqrstuvwxyzabcdef\"...) = <void>"},
        Row{"void f(string[arg2], ulong)", {kLong, 3}, 0, "(\"abc\", 3) = <void>"},
        Row{"void f(string2, ulong)", {kLong, 0}, 0, "(\"\", 0) = <void>"},
        Row{"void f(string[40])", {kLong}, 0, "(\"abcdefghijklmnopqrstuvwxyzabcdef\"...) = <void>"},
        Row{"void f(string[32])", {kLong}, 0, "(\"abcdefghijklmnopqrstuvwxyzabcdef\") = <void>"},
        Row{"void f(string[zero(5)], string[9])", {kLong, kShort}, 0, "(\"abcde\", \"hi\") = <void>"},
        Row{"void f(string, string)", {kCut, kWild}, 0, "(\"abcd\"..., 0xdead0000) = <void>"},
        // A negative length means up to the NUL; one that cannot be known leaves the address.
        Row{"void f(string[arg2], int)", {kShort, kIntMinusOne}, 0, "(\"hi\", -1) = <void>"},
        Row{"void f(string[arg2], ulong)", {kShort, kMinusOne}, 0, "(\"hi\", 18446744073709551615) = <void>"},
        Row{"void f(buffer[arg2], int)", {kShort, kIntMinusOne}, 0, "(0x26000, -1) = <void>"},
        Row{"void f(string[arg2], double)", {kShort}, 0, "(0x26000, 0.000000) = <void>", {0.0}},
        Row{"long _php_stream_write(addr, buffer[arg3], ulong);",
            {0x5555, kBinary, 8},
            8,
            "(0x5555, \"a\\0b\\n\\\"\\\\\\033\\377\", 8) = 8"},
        Row{"void f(buffer[arg2], long)",
            {kLong, 40},
            0,
            "(\"abcdefghijklmnopqrstuvwxyzabcdef\"..., 40) = <void>"},
        Row{"ulong fwrite(buffer[arg2*arg3], ulong, ulong)", {kText, 3, 2}, 2, "(\"SELECT\", 3, 2) = 2"},
        Row{"ulong fread(out buffer[retval*arg2], ulong, ulong)",
            {kText, 3, 9},
            2,
            "(; \"SELECT\", 3, 9) = 2"},
        Row{"ulong fread(out buffer[retval*arg2], ulong, ulong)",
            {kText, kMinusOne, 9},
            2,
            "(; \"SELECT SLEEP(0.2)\\0\"..., 18446744073709551615, 9) = 2"},
        Row{"void f(buffer[8], buffer[4], buffer[4])",
            {kCut, kWild, 0},
            0,
            "(\"abcd\"..., 0xdead0000, nil) = <void>"},
        Row{"void f(string(int), string(int))", {kWide, 0}, 0, "(\"h\\303\\244!\", nil) = <void>"},
        Row{"long read(fd, +buffer[retval], size)", {0, kText, 4096}, 6, "(0; \"SELECT\", 4096) = 6"},
        Row{"long read(fd, +buffer[retval], size)", {0, kText, 4096}, kMinusOne, "(0; 0x21000, 4096) = -1"},
        Row{"long f(string[retval])", {kText}, 3, "(; \"SEL\") = 3"}));

INSTANTIATE_TEST_SUITE_P(
    Aggregates, Call,
    testing::Values(
        Row{"int* f(int*, int**, int*)",
            {kNumbers, kPointers + 16, kWild},
            kNumbers,
            "(1, nil, 0xdead0000) = 1"},
        Row{"void f(array(int, 3)*, array(int, arg3), int)",
            {kNumbers, kNumbers, 7},
            0,
            "([ 1, 2, 3 ], [ 1, 2, 3, 4... ], 7) = <void>"},
        Row{"void f(array(int, zero), array(int, zero(2)), array(int, 0))",
            {kNumbers, kNumbers, kNumbers},
            0,
            "([ 1, 2, 3, 4... ], [ 1, 2 ], [ ]) = <void>"},
        Row{"void f(array(int, zero))", {kNumbers}, 0, "([ 1, 2, 3, 4, 5 ]) = <void>", {}, 5},
        Row{"void f(array(string, zero)*)", {kPointers}, 0, "([ \"SELECT SLEEP(0.2)\", \"hi\" ]) = <void>"},
        Row{"void f(string*, hex(array(int, 2)*))",
            {kPointers, kNumbers},
            0,
            "(\"SELECT SLEEP(0.2)\", [ 0x1, 0x2 ]) = <void>"},
        Row{"void f(struct(int, hide(int), addr)*)", {kNode}, 0, "({ 7, 0x27100 }) = <void>"},
        Row{"void f(struct(long, string[elt1])*)", {kSized}, 0, "({ 3, \"abc\" }) = <void>"},
        Row{"void f(struct(string(array(char, 16)))*)", {kText}, 0, "({ \"SELECT SLEEP(0.2\" }) = <void>"},
        Row{"typedef n = struct;\ntypedef n = struct(int, n*);\nvoid f(n*)",
            {kNode},
            0,
            "({ 7, { 8, recurse^ } }) = <void>"},
        Row{"typedef n = struct;\ntypedef n = struct(int, n*);\nvoid f(n*)",
            {kNode},
            0,
            "({ 7, ... }) = <void>",
            {},
            1},
        Row{"void f(struct(int, int), struct(long, long, long), int)",
            {0x200000001, 9},
            0,
            "({ 1, 2 }, { 100, 101, 102 }, 9) = <void>"},
        Row{"void f(int, int, int, int, int, struct(long, long), int)",
            {1, 2, 3, 4, 5, 6},
            0,
            "(1, 2, 3, 4, 5, { 100, 101 }, 6) = <void>"},
        Row{"struct(long, long, long) f(int)", {0, 5}, kNumbers, "(5) = { 8589934593, 17179869187, 5 }"},
        Row{"void f(in int, out int*, inout int*)", {1, kNumbers, kNumbers}, 0, "(1; 1, 1) = <void>"}));

INSTANTIATE_TEST_SUITE_P(
    Floats, Call,
    testing::Values(
        Row{"double f(double, int, double)", {3}, 0, "(1.500000, 3, -0.250000) = 1.500000", {1.5, -0.25}},
        Row{"void f(hex(double))", {}, 0, "(0x1.8p+0) = <void>", {1.5}},
        Row{"void f(struct(double, long), double)",
            {4},
            0,
            "({ 1.500000, 4 }, 2.000000) = <void>",
            {1.5, 2}}));

INSTANTIATE_TEST_SUITE_P(
    Formats, Call,
    testing::Values(
        Row{"int printf(format)",
            {kFormats, 42, kShort},
            9,
            "(\"%d %s %5.2f %%\", 42, \"hi\", 1.500000) = 9",
            {1.5}},
        Row{"int printf(format)",
            {kFormats + 0x100, kText, kText, 5, 6},
            0,
            "(\"%-10s|%.3s|%*d\", \"SELECT SLEEP(0.2)\", \"SEL\", 5, 6) = 0"},
        Row{"int printf(format)",
            {kFormats + 0x200, 0xff, 0xffff, kMinusOne, 5, 6},
            0,
            "(\"%hhd %hd %ld %lld %zu %x %#o\", -1, -1, -1, 5, 6, 0x64, 0145) = 0"},
        Row{"int printf(format)", {kFormats + 0x300, 1, kShort}, 0, "(\"%2$s %1$d\", 1, \"hi\") = 0"},
        Row{"int f(int, format)", {9, kFormats + 0x400, 4, kText}, 0, "(9, \"%.*s\", 4, \"SELE\") = 0"},
        Row{"int f(int, format)",
            {9, kFormats + 0x400, kIntMinusOne, kShort},
            0,
            "(9, \"%.*s\", -1, \"hi\") = 0"},
        Row{"int printf(format)",
            {kFormats + 0x500, 'x', 0x99, 0x98},
            0,
            "(\"%c %p %n %m\", 'x', 0x99, 0x98) = 0"},
        Row{"int printf(format)",
            {kFormats + 0x700, 1, 2, 3, 4, 5},
            0,
            "(\"%d %d %d %d %d %d %d\", 1, 2, 3, 4, 5, 100, 101) = 0"},
        Row{"int printf(format)", {kFormats + 0x800, 1}, 0, "(\"%Q %d\") = 0"},
        Row{"int printf(format)", {kFormats + 0x900}, 0, "(\"%a %g\", 0x1p+1, 3.000000) = 0", {2, 3}},
        Row{"int printf(format)", {kFormats + 0xa00, kWide}, 0, "(\"%ls\", \"h\\303\\244!\") = 0"},
        Row{"int printf(format)",
            {kFormats + 0xb00, kWide, 1, kWide},
            0,
            "(\"%.2ls|%.*S\", \"h\\303\\244\", 1, \"h\") = 0"},
        Row{"int printf(format)", {kWild}, 0, "(0xdead0000) = 0"},
        Row{"int sprintf(+string, format)",
            {kShort, kFormats + 0x700, 1, 2, 3, 4},
            2,
            "(; \"hi\", \"%d %d %d %d %d %d %d\", 1, 2, 3, 4, 100, 101, 102) = 2"}));

INSTANTIATE_TEST_SUITE_P(
    Unknown, Call,
    testing::Values(
        Row{"",
            {kText, kLong, 5, 100000},
            0,
            "(\"SELECT SLEEP(0.2)\", \"abcdefghijklmnopqrstuvwxyzabcdef\"..., 5, 0x186a0) = 0"},
        Row{"", {kShort, kBinary, kMinusOne, kCut}, 70000, "(0x26000, 0x23000, -1, 0x28ffc) = 0x11170"}));

TEST(CallDecoder, InoutShowsBothValues) {
  BufferMemory memory = tracee();
  CallDecoder decoder(prototype_of("void f(inout int*, in string)"), {});
  arch::Regs entry = registers({kNumbers, kText});
  auto entered = decoder.enter(entry, memory);
  EXPECT_TRUE(entered.arguments.empty());
  memory.add_value({kNumbers}, int32_t{6});
  memory.add({kText}, "changed");
  auto returned = decoder.leave(entry, arch::Regs(), memory, {}, {nullptr, nullptr, &entered.before, {}});
  EXPECT_EQ(joined(returned.arguments), "1 -> 6, \"SELECT SLEEP(0.2)\"");
}

// Of a call that does not return.
std::string abandoned(const std::string& prototype, const std::vector<uint64_t>& arguments) {
  BufferMemory memory = tracee();
  CallDecoder decoder(prototype_of(prototype), {});
  const arch::Regs entry = registers(arguments);
  const auto entered = decoder.enter(entry, memory);
  std::vector<std::byte> stack(decoder.at_entry().stack_bytes);
  stack.resize(memory.read({kStack + 8}, stack));
  return "(" + joined(entered.arguments) + "; " +
         joined(decoder.abandon(entry, stack, {nullptr, nullptr, &entered.before, {}})) + ")";
}

TEST(CallDecoder, WhatWasNotPrintedAtEntryIsKnownOfAnAbandonedCallToo) {
  EXPECT_EQ(abandoned("long read(int, out buffer[retval], ulong)", {3, kText, 16}), "(3; 0x21000, 16)");
  EXPECT_EQ(abandoned("void f(inout int*, in string, +string)", {kNumbers, kText, kText}),
            "(; 1, \"SELECT SLEEP(0.2)\", 0x21000)");
  EXPECT_EQ(abandoned("void f(int, int, int, int, int, int, out int*, int, string)", {1, 2, 3, 4, 5, 6}),
            "(1, 2, 3, 4, 5, 6; 0x64, 101, 0x66)");
  EXPECT_EQ(abandoned("void f(+double)", {}), "(; ?)");
  EXPECT_EQ(abandoned("int f(int, string)", {1, kText}), "(1, \"SELECT SLEEP(0.2)\"; )");
  EXPECT_EQ(abandoned("", {1, 2, 3, 4}), "(1, 2, 3, 4; )");
}

struct ErrnoRow {
  std::string prototype;
  uint64_t result;
  std::optional<int> error;
  std::string text;
  bool failed = true;
};
void PrintTo(const ErrnoRow& row, std::ostream* out) {
  *out << row.prototype;
}
class ErrnoLens : public testing::TestWithParam<ErrnoRow> {};
TEST_P(ErrnoLens, NamesTheErrorOfAFailureOnly) {
  BufferMemory memory = tracee();
  CallDecoder decoder(prototype_of(GetParam().prototype), {});
  EXPECT_TRUE(decoder.needs_errno());
  arch::Regs exit;
  exit.raw.rax = GetParam().result;
  const auto returned = decoder.leave({}, exit, memory, {}, {nullptr, nullptr, nullptr, GetParam().error});
  EXPECT_EQ(to_text(returned.result), GetParam().text);
  EXPECT_EQ(returned.failed, GetParam().failed);
}
INSTANTIATE_TEST_SUITE_P(
    Decode, ErrnoLens,
    testing::Values(ErrnoRow{"errno f()", kIntMinusOne, 2, "-1 ENOENT (No such file or directory)"},
                    ErrnoRow{"errno f()", 3, 2, "3", false}, ErrnoRow{"errno f()", kIntMinusOne, {}, "-1"},
                    ErrnoRow{"errno(addr) f()", 0, 12, "nil ENOMEM (Cannot allocate memory)"},
                    ErrnoRow{"errno(addr) f()", kMinusOne, 22, "-1 EINVAL (Invalid argument)"},
                    ErrnoRow{"errno(long) f()", kMinusOne, 99999, "-1 errno 99999"},
                    ErrnoRow{"errno(int) f()", kIntMinusOne, 0, "-1", false},
                    ErrnoRow{"errno(enum[long](ERR=-1, DFL=0)) f()", kMinusOne, 22,
                             "ERR EINVAL (Invalid argument)"},
                    ErrnoRow{"errno(enum[long](ERR=-1, DFL=0)) f()", 0, 22, "DFL", false}));

TEST(CallDecoder, KnowsWhereDescriptorsAre) {
  auto has = [](const char* prototype) { return CallDecoder(prototype_of(prototype), {}).has_descriptors(); };
  EXPECT_TRUE(has("int close(fd)"));
  EXPECT_TRUE(has("errno(fd) open(string)"));
  EXPECT_TRUE(has("int pipe(+array(fd, 2)*)"));
  EXPECT_TRUE(has("int poll(struct(fd, short, short)*)"));
  EXPECT_FALSE(has("int f(int, string)"));
  EXPECT_FALSE(CallDecoder(nullptr, {}).has_descriptors());
  BufferMemory memory = tracee();
  arch::Regs regs;
  regs.raw.rdi = regs.raw.rsi = 3;
  const auto entered = CallDecoder(prototype_of("int dup(fd, int)"), {}).enter(regs, memory);
  EXPECT_TRUE(entered.arguments.at(0).value.is_descriptor);
  EXPECT_FALSE(entered.arguments.at(1).value.is_descriptor);
}

TEST(CallDecoder, ErrnoIsAskedForWhereTheResultMayBeAFailure) {
  auto asks = [](const char* prototype, uint64_t result) {
    arch::Regs exit;
    exit.raw.rax = result;
    return CallDecoder(prototype_of(prototype), {}).needs_errno(exit);
  };
  EXPECT_TRUE(asks("errno f()", kIntMinusOne));
  EXPECT_TRUE(asks("errno(long) f()", kMinusOne));
  EXPECT_TRUE(asks("errno(addr) f()", 0));
  EXPECT_FALSE(asks("errno f()", 0));
  EXPECT_FALSE(asks("errno f()", 3));
  EXPECT_FALSE(asks("errno(addr) f()", 0x1000));
  EXPECT_FALSE(asks("int f()", kIntMinusOne));
}

TEST(CallDecoder, FloatsWithoutVectorRegistersAreUnreadable) {
  BufferMemory memory = tracee();
  CallDecoder decoder(prototype_of("double f(double, int)"), {});
  EXPECT_TRUE(decoder.needs_vector_registers());
  EXPECT_EQ(joined(decoder.enter(registers({3}), memory).arguments), "?, 3");
  EXPECT_EQ(to_text(decoder.leave({}, {}, memory, {}).result), "?");
  EXPECT_FALSE(CallDecoder(prototype_of("int f(int)"), {}).needs_vector_registers());
}

// psABI 3.2.3: class X87 goes to memory, aligned to 16 bytes.
// The bytes that a call of such a prototype has on the stack, all words of which are their numbers.
std::string decoded_from_numbered_stack(const std::string& prototype, uint64_t format = 0) {
  constexpr size_t kWords = 800;
  const CallDecoder decoder(prototype_of(prototype), {});
  BufferMemory memory;
  std::vector<uint64_t> words(kWords);
  for (size_t i = 0; i < kWords; ++i) words[i] = i;
  memory.add({kStack + 8}, std::string_view(reinterpret_cast<const char*>(words.data()), kWords * 8));
  std::string conversions;
  for (int i = 0; i < 100; ++i) conversions += "%d ";
  memory.add({kFormats}, std::string_view(conversions.c_str(), conversions.size() + 1));
  const arch::VectorRegs vectors;
  return joined(decoder.enter(registers({format}), memory, &vectors).arguments);
}

TEST(CallDecoder, FindsWhatLiesBehindAStructThatIsLargerThanWhatIsShownOfIt) {
  EXPECT_EQ(decoded_from_numbered_stack("void f(struct(array(long, 700)), struct(long, long, long))"),
            "{ [ 0, 1, 2, 3... ] }, { 700, 701, 702 }");
}

TEST(CallDecoder, ShowsAHundredArgumentsOfAFormat) {
  const std::string text = decoded_from_numbered_stack("void f(format)", kFormats);
  EXPECT_THAT(text, testing::EndsWith(", 92, 93, 94"));
}

TEST(CallDecoder, KnowsWhatLiesInMemoryAndWhereAFormatIs) {
  const CallDecoder plain(prototype_of("int f(int, double, int, int, int, int, int, short, longdouble)"), {});
  EXPECT_EQ(plain.bytes_in_memory(), 32u);
  EXPECT_EQ(plain.alignment_in_memory(), 16u);
  EXPECT_FALSE(plain.format().has_value());
  proto::Prototype strict = *prototype_of("int f(int)");
  strict.params[0].type = proto::make_structure({}, 64, 64);
  EXPECT_EQ(CallDecoder(std::make_shared<proto::Prototype>(strict), {}).alignment_in_memory(), 64u);
  const auto format = CallDecoder(prototype_of("int f(double, int, format)"), {}).format();
  ASSERT_TRUE(format.has_value());
  EXPECT_EQ(format->integer_registers, 2);
  EXPECT_EQ(format->vector_registers, 1);
  EXPECT_EQ(format->unit, 1);
  EXPECT_FALSE(format->scans);
  EXPECT_TRUE(CallDecoder(prototype_of("int f(string, scanf)"), {}).format()->scans);
  EXPECT_FALSE(CallDecoder(prototype_of("int f(int, int, int, int, int, int, format)"), {}).format());
}

TEST(CallDecoder, LongDoubleArgumentsLieOnTheStack) {
  BufferMemory memory = tracee();
  memory.add_value({kStack}, std::array<uint64_t, 6>{0x401000, 0, 0, 0, 0, 0});
  long double value = -2.5L;
  std::array<std::byte, 16> image{};
  std::memcpy(image.data(), &value, 10);
  memory.add_value({kStack + 8}, image);
  CallDecoder by_type(prototype_of("void f(int, longdouble, hex(long))"), {});
  EXPECT_EQ(joined(by_type.enter(registers({6, 7}), memory).arguments), "6, -2.500000, 0x7");
  CallDecoder by_format(prototype_of("int printf(format)"), {});
  EXPECT_EQ(joined(by_format.enter(registers({kFormats + 0x600, 3}), memory).arguments),
            "\"%Lf %d\", -2.500000, 3");
}

TEST(CallDecoder, AFloatingConversionTakesLlForLAndBinaryOnesAreKnown) {
  BufferMemory memory = tracee();
  long double value = -2.5L;
  std::array<std::byte, 16> image{};
  std::memcpy(image.data(), &value, 10);
  memory.add_value({kStack + 8}, image);
  constexpr std::string_view kBoth = "%llf %b %d";
  memory.add({kFormats + 0x2000}, std::string_view(kBoth.data(), kBoth.size() + 1));
  CallDecoder decoder(prototype_of("int printf(format)"), {});
  EXPECT_EQ(joined(decoder.enter(registers({kFormats + 0x2000, 5, 3}), memory).arguments),
            "\"%llf %b %d\", -2.500000, 0x5, 3");
}

TEST(CallDecoder, LongDoubleResultComesFromTheX87Stack) {
  BufferMemory memory;
  arch::VectorRegs vectors;
  long double value = 2.5L;
  std::memcpy(vectors.st[0].data(), &value, 10);
  CallDecoder decoder(prototype_of("longdouble f()"), {});
  EXPECT_EQ(to_text(decoder.leave({}, {}, memory, {}, {nullptr, &vectors, nullptr, {}}).result), "2.500000");
}

}  // namespace
}  // namespace rtrace::decode::call_decoder_test
