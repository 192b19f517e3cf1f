// What C's types become, from both compilers and both versions of DWARF.
#include "fixtures.h"

namespace rtrace::dwarf::c_test {
namespace {

using proto::Type;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class C : public ::testing::TestWithParam<std::string> {
 protected:
  Object object{"types_" + GetParam() + ".so"};
};
INSTANTIATE_TEST_SUITE_P(Compilers, C, ::testing::ValuesIn(producers()),
                         [](const auto& row) { return row.param; });

TEST_P(C, TextIsAStringAndAPointerItsPointee) {
  EXPECT_EQ(object.spelled("greet"), "void greet(s=string, c=color, p=point*, d=double)");
  proto::TypeRef point = proto::resolve(object.parameter("greet", 2)->inner);
  ASSERT_NE(point, nullptr);
  ASSERT_EQ(point->members.size(), 2u);
  EXPECT_EQ(point->members[1].name, "y");
  EXPECT_EQ(point->members[1].offset, 4u);
}

TEST_P(C, EnumeratorsKeepTheirValuesWhateverTheirForm) {
  auto values = [](const proto::TypeRef& type) {
    std::vector<std::string> list;
    for (const auto& entry : type->enumerators) list.push_back(fmt::format("{}={}", entry.name, entry.value));
    return list;
  };
  EXPECT_THAT(values(object.parameter("greet", 1)), ElementsAre("RED=0", "GREEN=200", "BLUE=201"));
  EXPECT_THAT(values(object.parameter("signs", 0)), ElementsAre("MINUS=-1", "PLUS=1"));
  EXPECT_TRUE(object.parameter("signs", 0)->is_signed);
}

TEST_P(C, EnumeratorsThatAreBitsAreASetOfThem) {
  const proto::TypeRef rights = object.parameter("grants", 0);
  EXPECT_EQ(rights->kind, proto::Type::Kind::flags);
  EXPECT_EQ(rights->enumerators.front().name, "ALL");  // of what is set the larger names come first
  EXPECT_EQ(rights->enumerators.size(), 5u);
  EXPECT_EQ(object.parameter("grants", 1)->kind, proto::Type::Kind::enumeration);
  EXPECT_EQ(object.parameter("grants", 2)->kind, proto::Type::Kind::enumeration);
}

TEST_P(C, NamesForSeveralOfTheBitsAreNamesOfTheSet) {
  const proto::TypeRef style = object.parameter("styles", 0);
  ASSERT_EQ(style->kind, proto::Type::Kind::flags);
  std::vector<std::string> names;
  for (const auto& entry : style->enumerators) names.push_back(entry.name);
  EXPECT_THAT(names, ElementsAre("BRIGHT", "COLOUR", "PLAIN", "BOLD", "DIM", "WIDE", "BLINK"));
  EXPECT_EQ(object.parameter("styles", 1)->kind, proto::Type::Kind::enumeration);
}

TEST_P(C, BitFieldsMayBeSetsOfBits) {
  const proto::TypeRef held = proto::resolve(object.parameter("grants", 3)->inner);
  ASSERT_NE(held, nullptr);
  ASSERT_EQ(held->members.size(), 3u);
  EXPECT_EQ(held->members[1].name, "r");
  EXPECT_EQ(held->members[1].bit_size, 4u);
}

TEST_P(C, OnlyPlainCharIsACharacter) {
  EXPECT_EQ(object.spelled("numbers"),
            "void numbers(a=schar, b=uint8, c=char, d=short, e=uint, f=long, g=bool)");
}

// Whatever a compiler leaves in the rest of the register.
TEST_P(C, ACharThatIsReturnedIsNoEof) {
  const Answer answer = object.ask("initial");
  ASSERT_NE(answer.prototype, nullptr) << answer.reason;
  EXPECT_TRUE(answer.prototype->narrow_char);
}

TEST_P(C, FloatsHaveTheirSizes) {
  EXPECT_EQ(object.spelled("floats"), "longdouble floats(a=float, b=double, c=longdouble)");
}

TEST_P(C, ARecursiveStructPointsToItself) {
  proto::TypeRef node = proto::resolve(object.parameter("list", 0)->inner);
  ASSERT_NE(node, nullptr);
  ASSERT_EQ(node->members.size(), 2u);
  EXPECT_EQ(proto::resolve(node->members[1].type->inner), node);
}

TEST_P(C, BitFieldsSayWhichBits) {
  proto::TypeRef bits = object.parameter("fields", 0);
  ASSERT_EQ(bits->members.size(), 3u);
  std::vector<std::string> places;
  for (const auto& member : bits->members)
    places.push_back(fmt::format("{}:{}", member.offset * 8 + member.bit_offset, member.bit_size));
  EXPECT_THAT(places, ElementsAre("0:3", "3:5", "8:40"));
}

TEST_P(C, StructsHoldStringsArraysAndUnions) {
  proto::TypeRef record = proto::resolve(object.parameter("records", 0)->inner);
  ASSERT_NE(record, nullptr);
  std::vector<std::string> members;
  for (const auto& member : record->members) members.push_back(proto::spell(*member.type));
  EXPECT_THAT(members, ElementsAre("string(array(char, 8))", "point", "array(uint8, 3)", "either",
                                   "array(array(int, 3), 2)", "array(int, elt0)"));
  EXPECT_EQ(record->members[3].type->members[1].offset, 0u);
}

TEST_P(C, WhatCannotBeLookedIntoIsAnAddress) {
  EXPECT_EQ(object.spelled("pointers"),
            "void pointers(a=addr, b=callback, c=string*, d=addr, e=addr, f=string*)");
  EXPECT_EQ(object.parameter("pointers", 1)->inner->kind, Type::Kind::nothing);
}

TEST_P(C, BytesWithALengthBesideThemAreABuffer) {
  EXPECT_EQ(object.spelled("buffers"),
            "size_t buffers(data=buffer[arg2], size=size_t, more=buffer[arg4], count=int, one=buffer[arg4])");
  EXPECT_EQ(object.spelled("before"), "int before(len=uint, data=buffer[arg1])");
}

TEST_P(C, WideTextIsAString) {
  EXPECT_EQ(object.spelled("wide"), "string(uint) wide(w=string(uint))");
}

TEST_P(C, FurtherArgumentsAreShownWhereAFormatTypesThem) {
  EXPECT_EQ(object.spelled("sum"), "int sum(first=int)");
  EXPECT_EQ(object.spelled("report"), "void report(level=int, fmt=format)");
  EXPECT_EQ(object.spelled("scan"), "int scan(format=string)");
}

TEST_P(C, ComplexNumbersArePairs) {
  proto::TypeRef z = object.parameter("twice", 0);
  ASSERT_EQ(z->members.size(), 2u);
  EXPECT_EQ(z->members[1].offset, 8u);
}

TEST_P(C, VectorsThatTravelInRegistersAreKnown) {
  EXPECT_EQ(object.spelled("vectors"), "vector vectors(v=vector)");
  proto::TypeRef vector = object.parameter("vectors", 0);
  EXPECT_TRUE(vector->is_vector);
  EXPECT_EQ(proto::spell(*proto::with_name(vector, "")), "vector(float, 4)");
}

TEST_P(C, StructsWithUnnamedBitFieldsAreRefused) {
  EXPECT_EQ(object.spelled("gaps"), "[compilers differ in how they pass a struct with unnamed bit-fields]");
}

TEST_P(C, AFunctionThatNeverReturnsIsKnown) {
  EXPECT_EQ(object.spelled("stop"), "noreturn stop(status=int)");
}

TEST_P(C, StaticFunctionsAreDescribedToo) {
  EXPECT_EQ(object.spelled("hidden"), "int hidden(p=point)");
}

TEST_P(C, ThePrototypeNamesItsOrigin) {
  EXPECT_EQ(object.ask("greet").prototype->origin, "debug info of " + object.file->path() + " (types.c)");
}

TEST(LineNumbersOnly, FunctionsThatStandThereWithoutTheirParametersHaveNoPrototype) {
  const Object lines("lines.so");
  ASSERT_NE(lines.debug, nullptr);
  EXPECT_EQ(lines.spelled("greet"), "[its debug information describes no parameters]");
}

}  // namespace
}  // namespace rtrace::dwarf::c_test
