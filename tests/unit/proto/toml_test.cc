#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "rtrace/proto/parser.h"

namespace rtrace::proto::toml_test {
namespace {

struct Row {
  std::string text;
  std::string outcome;  // the functions, then the diagnostics, one a line
};
void PrintTo(const Row& row, std::ostream* out) {
  *out << row.text;
}

std::string outcome(const std::string& text) {
  Diagnostics diagnostics;
  ParsedFile file = parse_toml(text, "t.toml", {}, diagnostics);
  std::string result;
  for (const auto& [name, prototype] : file.functions)
    result += (result.empty() ? "" : "\n") + spell(*prototype);
  for (const std::string& line : diagnostics) result += (result.empty() ? "" : "\n") + line;
  return result;
}

class TomlFile : public testing::TestWithParam<Row> {};
TEST_P(TomlFile, MeansWhatTheOtherLanguageSays) {
  EXPECT_EQ(outcome(GetParam().text), GetParam().outcome);
}

INSTANTIATE_TEST_SUITE_P(
    Toml, TomlFile,
    testing::Values(
        Row{"[types]\nMYSQL = \"addr\"\n[functions.mysql_real_query]\nreturns = \"int\"\nargs = [{ name = "
            "\"mysql\", type = "
            "\"MYSQL\" }, { name = \"query\", type = \"string[arg3]\" }, { name = \"length\", type = "
            "\"ulong\" }]",
            "int mysql_real_query(mysql=MYSQL, query=string[arg3], length=ulong)"},
        Row{"[functions]\nf = \"int(string, ulong)\"", "int f(string, ulong)"},
        Row{"[functions]\n\"a::b(int)\" = \"int(int)\"", "int a::b(int)(int)"},
        Row{"[functions]\nf = \"noreturn(int)\"\n[functions.g]\nreturns = \"noreturn\"",
            "noreturn f(int)\nnoreturn g()"},
        Row{"[functions.f]\nargs = [\"in string\", {type=\"out int*\"}, {type=\"inout int*\"}]",
            "void f(string, out int*, inout int*)"},
        Row{"[functions]\nf = \"int(list*)\"\n[types]\nlist = \"struct(item*, list*)\"\nitem = "
            "\"struct(list*)\"",
            "int f(list*)"},
        Row{"[types]\na = \"a\"\n[functions]\nf = \"int(int)\"",
            "int f(int)\nt.toml:2: type 'a' is made of itself, expected a struct or a pointer between"},
        Row{"[types]\na = \"b\"\nb = \"long\"\n[functions]\nf = \"a(b)\"", "a f(b)"},
        Row{"[functions.f]\nreturns = \"int\"\nargs = [\"int\",\n  5]\n",
            "t.toml:4: an argument is no table, expected one"},
        Row{"[functions.f]\nreturns = \"int\"\n\narg = []\n",
            "t.toml:4: unknown key 'arg', expected returns or args"},
        Row{"[functions]\nf = 5\ng = \"int(int)\"",
            "int g(int)\nt.toml:2: f is no prototype, expected a string or a table"},
        Row{"[functions]\nf = \"int(what)\"\ng = \"int(int)\"",
            "int g(int)\nt.toml:2: unknown type 'what', expected a type or the name of a typedef"},
        Row{"[functions.f]\nreturn = \"int\"", "t.toml:2: unknown key 'return', expected returns or args"},
        Row{"[functons]\nf = \"int(int)\"",
            "t.toml:1: unknown key 'functons', expected import, library, types or functions"},
        Row{"import = [\"x\"]", "t.toml:1: cannot import \"x\", expected a prototype file of that name"}));

TEST(Toml, SyntaxErrorLosesTheRestOfTheFileAndSaysSo) {
  std::string text = outcome("[functions]\nf = \"int(int)\"\ng = = \"int(int)\"\nh = \"int(int)\"");
  EXPECT_THAT(text, testing::StartsWith("int f(int)\nt.toml:3: "));
  EXPECT_THAT(text, testing::EndsWith(", expected TOML; the rest of the file is skipped"));
}

TEST(Toml, ImportsBringTypesAndFunctionsAndStandBeforeTheTables) {
  Diagnostics diagnostics;
  const Importer import = [&](std::string_view name) {
    return std::make_shared<const ParsedFile>(
        parse_conf(fmt::format("typedef t_{0} = hex(int);\nint f_{0}(int);\nint mine(int);", name), "other",
                   {}, diagnostics));
  };
  const ParsedFile file =
      parse_toml("import = [\"a\", \"b\"]\n[functions]\nmine = \"t_a(t_b)\"", "t", import, diagnostics);
  EXPECT_THAT(diagnostics, testing::IsEmpty());
  EXPECT_EQ(spell(*file.functions.at("mine")), "t_a mine(t_b)");
  EXPECT_EQ(file.functions.size(), 3U);
}

TEST(Toml, AFilesOwnTypesGoBeforeThoseOfItsImports) {
  Diagnostics diagnostics;
  const Importer import = [&](std::string_view) {
    return std::make_shared<const ParsedFile>(
        parse_conf("typedef t = hex(int);\ntypedef u = hex(int);", "other", {}, diagnostics));
  };
  const ParsedFile file =
      parse_toml("import = [\"a\"]\n[types]\nt = \"enum(MINE=1)\"\n[functions]\nf = \"int(t, u)\"", "t",
                 import, diagnostics);
  EXPECT_THAT(diagnostics, testing::IsEmpty());
  EXPECT_EQ(file.scope->types.at("t")->kind, Type::Kind::enumeration);
  EXPECT_EQ(file.scope->types.at("u")->kind, Type::Kind::integer);
}

TEST(Toml, LibraryNamesTheObject) {
  Diagnostics diagnostics;
  EXPECT_EQ(parse_toml("[library]\nsoname = \"libm.so.6\"", "t", {}, diagnostics).soname, "libm.so.6");
  EXPECT_THAT(diagnostics, testing::IsEmpty());
}

TEST(Toml, TypesThatReferToEachOtherResolve) {
  Diagnostics diagnostics;
  ParsedFile file = parse_toml("[types]\na = \"struct(b*)\"\nb = \"struct(a*, int)\"", "t", {}, diagnostics);
  ASSERT_THAT(diagnostics, testing::IsEmpty());
  TypeRef b = resolve(file.scope->types.at("a")->members[0].type->inner);
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->members.size(), 2U);
  EXPECT_EQ(resolve(b->members[0].type->inner), file.scope->types.at("a"));
}

// Each holds the other: as a member, and behind a vector's or a pointer's address.
TEST(Toml, TypesThatHoldEachOtherAreReadWhicheverComesFirst) {
  for (const std::string order : {"ab", "ba"}) {
    Diagnostics diagnostics;
    const std::string whole = order.substr(0, 1), part = order.substr(1);
    const ParsedFile file = parse_toml(
        fmt::format("[types]\n{0} = \"struct(x=int, {1})\"\n{1} = \"struct(std_vector({0}), {0}*, long)\"\n"
                    "c = \"struct({0}, {1})\"",
                    whole, part),
        "t", {}, diagnostics);
    ASSERT_THAT(diagnostics, testing::IsEmpty()) << order;
    EXPECT_EQ(file.scope->types.at(whole)->size, 48U) << order;
    EXPECT_EQ(file.scope->types.at("c")->size, 88U) << order;
    const TypeRef held = file.scope->types.at(part);
    EXPECT_EQ(resolve(held->members[0].type->inner), file.scope->types.at(whole)) << order;
    EXPECT_EQ(resolve(held->members[1].type->inner), file.scope->types.at(whole)) << order;
  }
}

TEST(Toml, TypesThatAreMadeOfEachOtherAreRefused) {
  EXPECT_THAT(outcome("[types]\na = \"struct(b)\"\nb = \"struct(int, a)\""),
              testing::AllOf(testing::HasSubstr("t.toml:2: "), testing::HasSubstr("t.toml:3: "),
                             testing::HasSubstr("is not defined yet")));
}

// Each of these ran into an assertion or undefined behaviour of toml++ 3.3.
TEST(Toml, CharactersThatNoKeyBeginsWithAreASyntaxError) {
  EXPECT_THAT(outcome("[\v functions]\nf = \"int()\""), testing::HasSubstr("expected TOML"));
  EXPECT_THAT(outcome("[.]\nf = 1"), testing::HasSubstr("expected TOML"));
  EXPECT_EQ(outcome("[functions]\nf = \"int(int)\"\n\310\264;Y = 1\ng = \"int()\""),
            "int f(int)\nt.toml:3: a character that is not ASCII outside of strings, expected TOML; the rest "
            "of the "
            "file is skipped");
}

TEST(Toml, CharactersOfAllLanguagesMayStandInStringsAndComments) {
  EXPECT_EQ(
      outcome(
          "# \310\264\n[functions] # '\n'\310\264' = \"\"\"int(int)\"\"\" # \"\n\"\\\"\310\264\" = 'int()'"),
      "int \"\310\264()\nint \310\264(int)");
}

TEST(Toml, ALongChainOfTypesIsRefused) {
  std::string text = "[types]\n";
  for (int i = 0; i < 20000; ++i) text += fmt::format("t{} = \"t{}*\"\n", i, i + 1);
  EXPECT_THAT(outcome(text + "t20000 = \"int\""), testing::HasSubstr("types nested deeper than 64"));
}

}  // namespace
}  // namespace rtrace::proto::toml_test
