#include "rtrace/proto/toml_writer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rtrace/proto/parser.h"

namespace rtrace::proto::toml_writer_test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

ParsedFile parsed(const std::string& text) {
  Diagnostics diagnostics;
  ParsedFile file = parse_toml(text, "t.toml", {}, diagnostics);
  EXPECT_THAT(diagnostics, IsEmpty()) << text;
  return file;
}

std::string written(const ParsedFile& file) {
  TomlWriter writer;
  for (const auto& [name, prototype] : file.functions) writer.add(name, *prototype);
  return writer.text();
}

// What is written is read again, and written the same.
std::string rewritten(const std::string& text) {
  const std::string first = written(parsed(text));
  EXPECT_EQ(written(parsed(first)), first);
  return first;
}

TEST(TomlWriter, TypesComeFirstAndAllIsSorted) {
  EXPECT_EQ(
      rewritten(
          "[types]\nz = \"struct(int)\"\na = \"ulong\"\n[functions]\ng = \"a(z*, v=z)\"\nf = \"void()\""),
      "[types]\na = \"ulong\"\nz = \"struct(int)\"\n\n[functions]\nf = \"void()\"\ng = \"a(z*, v=z)\"\n");
}

TEST(TomlWriter, StructsMayLeadBackToThemselves) {
  EXPECT_EQ(rewritten("[types]\na = \"struct(b*)\"\nb = \"struct(a*, int)\"\n[functions]\nf = \"int(a*)\""),
            "[types]\na = \"struct(b*)\"\nb = \"struct(a*, int)\"\n\n[functions]\nf = \"int(a*)\"\n");
}

TEST(TomlWriter, WhatTheLanguageHasNoWordsForIsSpelledSoThatItCanBeRead) {
  for (const char* type :
       {"int128", "complex(longdouble)", "vector(float, 8)", "std_vector(std_string)", "char16", "hide(addr)",
        "noreturn", "struct[5, 1](@0 char, n=@1 int)", "struct[4, 4](@0:0:3 uint)", "union(int, double)",
        "array(int, elt0)*", "string(array(char, 8)*)", "buffer[3]", "enum[uint](A=1, B=5)", "bool(uint8)"}) {
    const std::string as = std::string(type) == "noreturn" ? "noreturn()" : fmt::format("void({})", type);
    const std::string text = rewritten(fmt::format("[functions]\nf = \"{}\"", as));
    EXPECT_THAT(parsed(text).functions.size(), 1U) << text;
  }
}

Prototype prototype_of(const std::vector<TypeRef>& types) {
  Prototype prototype;
  prototype.returns = make_void();
  for (const TypeRef& type : types) prototype.params.push_back({"", type});
  return prototype;
}

TypeRef structure_called(const std::string& name, unsigned size) {
  return with_name(make_structure({{"m", make_integer(size, true)}}), name);
}

TEST(TomlWriter, AResultThatWouldTakeTheParametersForItsOwnIsWrittenInTheLongForm) {
  EXPECT_EQ(rewritten("[functions]\nf = { returns = \"string\", args = [{ name = \"s\", type = \"string\" }, "
                      "{ type = \"out int*\" }] }"),
            "[functions]\nf = { returns = \"string\", args = [{ name = \"s\", type = \"string\" }, "
            "{ type = \"out int*\" }] }\n");
  EXPECT_EQ(rewritten("[functions]\nf = { returns = \"string\", args = [] }"),
            "[functions]\nf = { returns = \"string\", args = [] }\n");
}

TEST(TomlWriter, TwoTypesOfOneNameGetTwo) {
  TomlWriter writer;
  writer.add("f", prototype_of({structure_called("s", 4), structure_called("s", 8)}));
  EXPECT_EQ(
      writer.text(),
      "[types]\ns = \"struct(m=int)\"\ns_2 = \"struct(m=long)\"\n\n[functions]\nf = \"void(s, s_2)\"\n");
}

TEST(TomlWriter, NamesThatAreNoWordsOrMeanSomethingElseAreReplaced) {
  TomlWriter writer;
  Prototype prototype = prototype_of({structure_called("pair<int, \"x\">", 4), structure_called("string", 4),
                                      with_name(make_integer(4, true), "int")});
  prototype.params[0].name = "a b";
  writer.add("ns::f", prototype);
  const std::string text = writer.text();
  EXPECT_THAT(text, HasSubstr("pair_int___x__ = \"struct(m=int)\"\n"));
  EXPECT_THAT(text, HasSubstr("string_2 = \"struct(m=int)\"\n"));
  EXPECT_THAT(text, HasSubstr("\"ns::f\" = \"void(pair_int___x__, string_2, int)\"\n"));
  parsed(text);
}

TEST(TomlWriter, APointerToWhatWasNeverDefinedIsAnAddress) {
  TomlWriter writer;
  writer.add("f", prototype_of({make_pointer(make_named("gone"))}));
  EXPECT_EQ(writer.text(), "[functions]\nf = \"void(addr)\"\n");
}

TEST(TomlWriter, AVectorOfWhatWasNeverDefinedIsItsThreePointers) {
  TomlWriter writer;
  writer.add("f", prototype_of({make_pointer(make_container(Container::vector, make_named("gone")))}));
  EXPECT_EQ(writer.text(), "[functions]\nf = \"void(struct(addr, addr, addr)*)\"\n");
  parsed(writer.text());
}

TEST(TomlWriter, ALongChainOfStructsIsReadAgain) {
  std::string text = "[types]\n";
  for (int i = 0; i < 500; ++i) text += fmt::format("t{} = \"struct(t{}*)\"\n", i, i + 1);
  const ParsedFile file = parsed(text + "t500 = \"struct(int)\"\n[functions]\nf = \"int(t0*)\"");
  TypeRef type = file.scope->types.at("t0");
  for (int i = 0; i < 500; ++i) {
    ASSERT_NE(type, nullptr) << i;
    type = resolve(type->members.at(0).type->inner);
  }
  ASSERT_NE(type, nullptr);
  EXPECT_EQ(spell(*type), "t500");
}

}  // namespace
}  // namespace rtrace::proto::toml_writer_test
