#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rtrace/base/error.h"
#include "rtrace/proto/parser.h"

namespace rtrace::proto::conf_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Row {
  std::string text;
  std::string canonical;  // of the prototype, or the diagnostic
};
void PrintTo(const Row& row, std::ostream* out) {
  *out << row.text;
}

// The functions' spellings, then the diagnostics, one a line.
std::string outcome(const std::string& text, const Importer& import = {}) {
  Diagnostics diagnostics;
  ParsedFile file = parse_conf(text, "t.conf", import, diagnostics);
  std::string result;
  for (const auto& [name, prototype] : file.functions)
    result += (result.empty() ? "" : "\n") + spell(*prototype);
  for (const std::string& line : diagnostics) result += (result.empty() ? "" : "\n") + line;
  return result;
}

class AcceptedLine : public testing::TestWithParam<Row> {};
TEST_P(AcceptedLine, HasItsCanonicalForm) {
  EXPECT_EQ(outcome(GetParam().text), GetParam().canonical);
}

// What is spelled must be readable again, and mean the same.
TEST_P(AcceptedLine, CanonicalFormIsItsOwnCanonicalForm) {
  EXPECT_EQ(outcome(GetParam().canonical), GetParam().canonical);
}

INSTANTIATE_TEST_SUITE_P(
    Conf, AcceptedLine,
    testing::Values(
        Row{"", ""}, Row{"# comment", ""}, Row{"  ; comment", ""}, Row{"int f(void);", "int f()"},
        Row{"int f()", "int f()"}, Row{"function int f(int);", "int f(int)"},
        Row{"int f(int); trailing )( words 09zz", "int f(int)"},
        Row{"int mysql_real_query(addr,string,ulong);", "int mysql_real_query(addr, string, ulong)"},
        Row{"long _php_stream_write(addr, buffer[arg3], ulong);",
            "long _php_stream_write(addr, buffer[arg3], ulong)"},
        Row{"void f(char,short,ushort,int,uint,long,ulong,float,double);",
            "void f(char, short, ushort, int, uint, long, ulong, float, double)"},
        Row{"void f(int8,uint8,int16,uint16,int32,uint32,int64,uint64,longlong,longdouble,schar,size);",
            "void f(schar, uint8, short, ushort, int, uint, long, ulong, long, longdouble, schar, ulong)"},
        Row{"fd f(fd)", "fd f(fd)"}, Row{"errno f(int)", "errno(int) f(int)"},
        Row{"errno(addr) f()", "errno(addr) f()"}, Row{"noreturn exit(int)", "noreturn exit(int)"},
        Row{"file f(file, void*)", "addr f(addr, addr)"},
        Row{"int f(string3, string0, int)", "int f(string[arg3], out string[retval], int)"},
        Row{"int f(string[32], string[arg1], string[zero(8)], string[zero])",
            "int f(string[32], string[arg1], string[zero(8)], string)"},
        Row{"int f(string(int), string(char*), string(array(char, 8)*), string(array(short, arg1)*))",
            "int f(string(int), string, string[8], string(array(short, arg1)*))"},
        Row{"int f(format)", "int f(format)"}, Row{"int f(format[12])", "int f(format[12])"},
        Row{"int f(format(int))", "int f(format(int))"},
        Row{"int read(int, +buffer[retval], ulong)", "int read(int, +buffer[retval], ulong)"},
        Row{"ulong fwrite(buffer[arg2*arg3], ulong, ulong)", "ulong fwrite(buffer[arg2*arg3], ulong, ulong)"},
        Row{"ulong fread(buffer[retval * arg2], ulong)", "ulong fread(out buffer[retval*arg2], ulong)"},
        Row{"int read(int, buffer[arg0], ulong)", "int read(int, out buffer[retval], ulong)"},
        Row{"int f(in int*, out int*, inout int*, int)", "int f(int*, out int*, inout int*, int)"},
        Row{"int open(path=string, flags=hex(int))", "int open(path=string, flags=hex(int))"},
        Row{"int f(path=in string, to=out string, in=int)", "int f(path=string, to=out string, in=int)"},
        Row{"int f(hex(int), oct(int), octal(int), octal, bool(int), bitvec(long), hide(int), guess(long))",
            "int f(hex(int), oct(int), oct(int), oct(uint), bool(int), bitvec(long), hide(int), "
            "guess(long))"},
        Row{"int f(hex(oct(int)))", "int f(oct(int))"}, Row{"int f(hex(int)*)", "int f(hex(int)*)"},
        Row{"int f(int**)", "int f(int**)"},
        Row{"int f(array(int, 4)*, array(char, arg1), array(long, zero), array(long, zero(9)))",
            "int f(array(int, 4)*, array(char, arg1), array(long, zero), array(long, zero(9)))"},
        Row{"int f(struct(int, array(char, elt1)*, name=string)*)",
            "int f(struct(int, array(char, elt1)*, name=string)*)"},
        Row{"int f(struct())", "int f(struct())"},
        Row{"int f(enum(A, B=5, C, D=-1, E))", "int f(enum(A=0, B=5, C=6, D=-1, E=0))"},
        Row{"int f(enum[long](A=0x10, B=010))", "int f(enum[long](A=16, B=8))"},
        Row{"int f(flags[ulong](R=4,W=2))", "int f(flags[ulong](R=4, W=2))"},
        Row{"int f(flags(R=0/3,C=4), case[arg1](4/4=int, 0x10/0x30=string, hide(int)))",
            "int f(flags(R=0/0x3, C=4), case[arg1](4/0x4=int, 16/0x30=string, hide(int)))"},
        Row{"int f(flags(R=4))", "int f(flags(R=4))"}, Row{"int f(enum[uint](A))", "int f(enum[uint](A=0))"},
        Row{"int f(int128, uint128, char16, char32)", "int f(int128, uint128, char16, char32)"},
        Row{"int f(complex(double), vector(float, 4))", "int f(complex(double), vector(float, 4))"},
        Row{"int f(union(int, d=double))", "int f(union(int, d=double))"},
        Row{"int f(struct[8, 8](int))", "int f(struct[8, 8](@0 int))"},
        Row{"int f(struct[5,1](char, n=@1 int))", "int f(struct[5, 1](@0 char, n=@1 int))"},
        Row{"int f(struct(@0:0:3 uint, @0:3:5 int))", "int f(struct[4, 4](@0:0:3 uint, @0:3:5 int))"},
        Row{"int f(struct(int, @8 int, int))", "int f(struct[16, 4](@0 int, @8 int, @12 int))"},
        Row{"int f(array(int, elt0)*)", "int f(array(int, elt0)*)"},
        Row{"int wait(wstatus*)", "int wait(wstatus*)"},
        Row{"int f(sockaddr[arg2], uint)", "int f(sockaddr[arg2], uint)"},
        Row{"int f(int, case[arg1](0x10=string, -1=hide(int), long))",
            "int f(int, case[arg1](16=string, -1=hide(int), long))"},
        Row{"int f(case[arg0](0=int*, addr))", "int f(+case[retval](0=int*, addr))"},
        Row{"int f(struct(int, case[elt1](long))*)", "int f(struct(int, case[elt1](long))*)"},
        Row{"int f(buffer[filled(arg2)], int)", "int f(out buffer[filled(arg2)], int)"},
        Row{"int f(out buffer[filled(arg2)], int)", "int f(out buffer[filled(arg2)], int)"},
        Row{"int sscanf(string, scanf)", "int sscanf(string, scanf)"},
        Row{"int f(scanf(int))", "int f(scanf(int))"}, Row{"int f(scanf[9])", "int f(scanf[9])"},
        Row{"int f(std_string*, std_string(int)*, std_string_view, std_vector(int*)*)",
            "int f(std_string*, std_string(int)*, std_string_view, std_vector(int*)*)"}));

// The name of a typedef can be read again only where its definition is.
class AcceptedTypedef : public testing::TestWithParam<Row> {};
TEST_P(AcceptedTypedef, IsSpelledByItsName) {
  EXPECT_EQ(outcome(GetParam().text), GetParam().canonical);
}

INSTANTIATE_TEST_SUITE_P(
    Conf, AcceptedTypedef,
    testing::Values(
        Row{"typedef myint = hex(int);\nmyint f(myint*)", "myint f(myint*)"},
        Row{"typedef node = struct;\ntypedef node = struct(int, node*);\nint f(node*)", "int f(node*)"},
        Row{"typedef packed = struct[5, 1](char, @1 int);\nint f(packed*)", "int f(packed*)"},
        Row{"typedef a = int; # a comment\ntypedef b = a; ; another\nint f(b*)", "int f(b*)"},
        Row{"typedef a = long; nonsense\nint f(a*)",
            "int f(a*)\nt.conf:1: unexpected 'nonsense', expected the end of the line: each item stands on a "
            "line of its own"},
        Row{"typedef node = struct;\nint f(node*)\ntypedef node = struct(int, node*);", "int f(node*)"}));

class RefusedLine : public testing::TestWithParam<Row> {};
TEST_P(RefusedLine, IsReportedWithItsPlaceAndTheRestCounts) {
  EXPECT_EQ(outcome(GetParam().text + "\nint good(int);"),
            "int good(int)\nt.conf:1: " + GetParam().canonical);
}

INSTANTIATE_TEST_SUITE_P(
    Conf, RefusedLine,
    testing::Values(
        Row{"int", "unexpected end of line, expected a function name"},
        Row{"int f", "unexpected end of line, expected '('"},
        Row{"int f(", "unexpected end of line, expected a type"},
        Row{"int f(int", "unexpected end of line, expected ',' or ')'"},
        Row{"int f(int int)", "unexpected 'int', expected ',' or ')'"},
        Row{"int f(int,)", "unexpected ')', expected a type"},
        Row{"int f(foo)", "unknown type 'foo', expected a type or the name of a typedef"},
        Row{"int f(strings)", "unknown type 'strings', expected a type or the name of a typedef"},
        Row{"int f(int, void)", "unexpected 'void', expected a parameter"},
        Row{"int f(case[3](int))", "a 'case' without a value to go by, expected argN, eltN or retval"},
        Row{"int f(case[arg1](1=int))", "unexpected ')', expected ','"},
        Row{"int f(case[arg9](int))", "'arg9' in a function of 1 parameters, expected one of them"},
        Row{"int f(buffer[filled(zero)])", "a length without a number in 'filled', expected one with it"},
        Row{"int f(scanf, int)",
            "a parameter behind a format, expected none: the format types all further arguments"},
        Row{"int f(string[])", "unexpected ']', expected a length: a number, argN, eltN, retval or zero"},
        Row{"int f(buffer[arg1*elt1], int)", "unexpected 'elt1', expected argN, which multiplies the length"},
        Row{"int f(buffer[arg1*arg3], int)", "'arg3' in a function of 2 parameters, expected one of them"},
        Row{"int f(buffer[2*arg2], int)", "unexpected '*', expected ']'"},
        Row{"int f(string[arg2])", "'arg2' in a function of 1 parameters, expected one of them"},
        Row{"int f(string[elt1])",
            "unexpected 'elt1', expected a length that is no member's, for there is no enclosing struct"},
        Row{"int f(struct(int, string[elt3]))", "'elt3' in a struct of 2 members, expected one of them"},
        Row{"int f(string[99999999999999999999])",
            "unexpected '99999999999999999999', expected a length: a number, argN, eltN, retval or zero"},
        Row{"int f(format, int)",
            "a parameter behind a format, expected none: the format types all further arguments"},
        Row{"int f(hex int)", "unexpected 'int', expected '('"},
        Row{"int f(array(int))", "unexpected ')', expected ','"},
        Row{"int f(enum())", "unexpected ')', expected a key"},
        Row{"int f(enum(A=))", "unexpected ')', expected a number"},
        Row{"int f(flags(A=4/3))", "a mask of 0x3 without bits of 0x4"},
        Row{"int f(flags(A=4/0))", "a mask of 0x0 without bits of 0x4"},
        Row{"int f(flags(A=4/x))", "unexpected 'x', expected a mask"},
        Row{"int f(struct(@0:0:0 int))", "bits 0 to 0, expected up to 128 of them"},
        Row{"int f(struct(@0:1:3 float))", "'float' as a bit-field, expected an integer type"},
        Row{"int f(struct[4](int, int))", "a struct of 4 bytes whose members end at 8, expected more"},
        Row{"int f(struct(@9999999999999 int))",
            "an offset of 9999999999999, expected one below 1099511627776"},
        Row{"int f(union(@0 int))",
            "an offset in a union, expected none: all its members begin where it does"},
        Row{"int f(vector(float, 3))", "a vector of 3 'float', expected 8, 16 or 32 bytes of numbers"},
        Row{"int f(complex(int))", "'int' as a part of a complex number, expected a floating-point type"},
        Row{"int f(std_string(double))",
            "'double' as characters, expected an integer type of 1, 2 or 4 bytes"},
        Row{"int f(enum[float](A))", "'float' for an enumeration, expected an integer type"},
        Row{"int f(flags(A))", "unexpected ')', expected '='"},
        Row{"int f(string(double))", "'double' as characters, expected an integer type of 1, 2 or 4 bytes"},
        Row{"typedef = int;", "unexpected '=', expected a name"},
        Row{"typedef a int;", "unexpected 'int', expected '='"},
        Row{"typedef a = int", "unexpected end of line, expected ';'"},
        Row{"typedef a = int; int f(a);",
            "unexpected 'int', expected the end of the line: each item stands on a line of its own"},
        Row{"import \"nowhere\";", "cannot import \"nowhere\", expected a prototype file of that name"},
        Row{"import 5;", "unexpected '5', expected a name in double quotes"},
        Row{"int \x1b[31m(int)", "unexpected '\\033', expected a function name"}));

TEST(Conf, IncompleteStructCannotBePassedByValue) {
  EXPECT_THAT(
      outcome("typedef a = struct;\nint f(a);"),
      HasSubstr(
          "t.conf:2: struct 'a' is not defined yet, expected a parameter that is complete, or a pointer"));
}

TEST(Conf, NestingIsBounded) {
  std::string deep = "int f(";
  for (int i = 0; i < 100000; ++i) deep += "struct(";
  EXPECT_THAT(outcome(deep), HasSubstr("types nested deeper than 64, expected fewer"));
  EXPECT_THAT(outcome("int f(int" + std::string(100000, '*')),
              HasSubstr("types nested deeper than 64, expected fewer"));
}

TEST(Conf, ManyPointerParametersAreNotNested) {
  std::string wide = "int f(int*";
  for (int i = 0; i < 200; ++i) wide += ",int*";
  EXPECT_THAT(outcome(wide + ")"), testing::StartsWith("int f(int*, int*"));
}

TEST(Conf, ImportGivesTypesAndFunctions) {
  Importer import = [](std::string_view name) {
    Diagnostics none;
    EXPECT_EQ(name, "other");
    return std::make_shared<const ParsedFile>(parse_conf("typedef t = long;\nt g(t);", "other", {}, none));
  };
  EXPECT_EQ(outcome("import \"other\";\nt f(t);", import), "t f(t)\nt g(t)");
}

TEST(Conf, PrototypeKeepsTheStructsItRefersToByName) {
  std::shared_ptr<const Prototype> kept;
  {
    Diagnostics none;
    kept = parse_conf("typedef a = struct;\nint f(a*);\ntypedef a = struct(int);", "t", {}, none)
               .functions.at("f");
  }
  TypeRef target = resolve(kept->params[0].type->inner);
  ASSERT_NE(target, nullptr);
  EXPECT_EQ(target->members.size(), 1U);
}

TEST(Conf, OriginNamesFileAndLine) {
  Diagnostics none;
  EXPECT_EQ(parse_conf("\n\nint f(int);", "dir/t.conf", {}, none).functions.at("f")->origin, "dir/t.conf:3");
}

struct LayoutRow {
  std::string type;
  std::vector<uint64_t> offsets;
  uint64_t size;
  uint64_t align;
};
void PrintTo(const LayoutRow& row, std::ostream* out) {
  *out << row.type;
}
class StructLayout : public testing::TestWithParam<LayoutRow> {};
TEST_P(StructLayout, IsNaturalAlignment) {
  TypeRef type = parse_type(GetParam().type, TypeScope());
  std::vector<uint64_t> offsets;
  for (const Member& member : type->members) offsets.push_back(member.offset);
  EXPECT_EQ(offsets, GetParam().offsets);
  EXPECT_EQ(type->size, GetParam().size);
  EXPECT_EQ(type->align, GetParam().align);
}
INSTANTIATE_TEST_SUITE_P(Proto, StructLayout,
                         testing::Values(LayoutRow{"struct(char, int, char)", {0, 4, 8}, 12, 4},
                                         LayoutRow{"struct(char, string)", {0, 8}, 16, 8},
                                         LayoutRow{
                                             "struct(char, array(short, 3), longdouble)", {0, 2, 16}, 32, 16},
                                         LayoutRow{"struct(struct(char, long), char)", {0, 16}, 24, 8},
                                         LayoutRow{"struct(string(array(char, 5)), int)", {0, 8}, 12, 4}));

TEST(ParseType, RefusesWhatFollows) {
  EXPECT_THROW(parse_type("int int", TypeScope()), Error);
  EXPECT_EQ(spell(*parse_type("string[arg3]", TypeScope())), "string[arg3]");
}

TEST(Conf, HugeArrayHasNoWrappedSize) {
  EXPECT_EQ(parse_type("array(long, 0x2000000000000001)", TypeScope())->size, 0U);
}

TEST(Conf, TypedefsThatDoubleAreRefusedBeforeAnyoneWalksThem) {
  std::string text = "typedef t0 = struct(int, int);\n";
  for (int i = 0; i < 50; ++i) text += fmt::format("typedef t{} = struct(t{}, t{});\n", i + 1, i, i);
  Diagnostics diagnostics;
  const ParsedFile file = parse_conf(text + "int f(t10*)\nint g(t50*)\n", "t", {}, diagnostics);
  EXPECT_TRUE(file.functions.contains("f"));
  EXPECT_FALSE(file.functions.contains("g"));
  EXPECT_THAT(diagnostics, testing::Contains(testing::HasSubstr("a type of more than 65536 parts")));
}

TEST(Conf, TypedefsThatNestAreRefusedAtTheSameDepthAsOneLine) {
  std::string text = "typedef t0 = struct(int);\n";
  for (int i = 0; i < 100; ++i) text += fmt::format("typedef t{} = struct(t{});\n", i + 1, i);
  Diagnostics diagnostics;
  parse_conf(text, "t", {}, diagnostics);
  EXPECT_THAT(diagnostics, testing::Contains(testing::HasSubstr("types nested deeper than 64")));
}

TEST(Conf, SumsOfHugeMembersDoNotWrap) {
  auto type =
      parse_type("struct(array(char, 0x700000000000), array(char, 0x700000000000), int)", TypeScope());
  ASSERT_EQ(type->members.size(), 3U);
  EXPECT_LE(type->members[0].offset, type->members[1].offset);
  EXPECT_LE(type->members[1].offset, type->members[2].offset);
}

}  // namespace
}  // namespace rtrace::proto::conf_test
