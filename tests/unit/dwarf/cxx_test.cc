#include "fixtures.h"

namespace rtrace::dwarf::cxx_test {
namespace {

using ::testing::ElementsAre;

class Cxx : public ::testing::TestWithParam<std::string> {
 protected:
  Object object{"classes_" + GetParam() + ".so"};
};
INSTANTIATE_TEST_SUITE_P(Compilers, Cxx, ::testing::ValuesIn(producers()),
                         [](const auto& row) { return row.param; });

TEST_P(Cxx, AMethodHasThisAsItsFirstParameter) {
  EXPECT_EQ(object.spelled("_ZNK4shop4Item4costEi"), "int cost(this=Item*, pieces=int)");
  EXPECT_EQ(object.spelled("_ZN4shop4Item5totalEib"), "int total(a=int, b=bool)");
}

TEST_P(Cxx, ClassesInsideOfFunctionsHaveFunctionsToo) {
  EXPECT_EQ(object.spelled("_ZZN4shop7countedEiENK5Local3addEic"), "int add(this=Local*, a=int, b=char)");
  const bool gcc = GetParam().starts_with("gcc");
  const proto::TypeRef more =
      object.parameter(gcc ? "_ZZN4shop7countedEiENKUlsE_clEs" : "_ZZN4shop7countedEiENK3$_0clEs", 1);
  ASSERT_NE(more, nullptr);
  EXPECT_EQ(proto::spell(*more), "short");
}

TEST_P(Cxx, AClassShowsItsBasesAndMembersButNoStaticOnes) {
  proto::TypeRef item = proto::resolve(object.parameter("_ZNK4shop4Item4costEi", 0)->inner);
  ASSERT_NE(item, nullptr);
  std::vector<std::string> members;
  for (const auto& member : item->members) members.push_back(proto::spell(*member.type));
  EXPECT_THAT(members, ElementsAre("Base", "Size"));
  EXPECT_EQ(item->members[1].type->size, 1u);
}

TEST_P(Cxx, MembersMayLieInTheEndOfOthersAndWhereOthersBegin) {
  proto::TypeRef tight = proto::resolve(object.parameter("_ZN4shop9look_intoEPNS_5TightE", 0)->inner);
  ASSERT_NE(tight, nullptr);
  std::vector<std::string> members;
  for (const auto& member : tight->members)
    members.push_back(fmt::format("{}@{}", member.name, member.offset));
  EXPECT_THAT(members, ElementsAre("nothing@0", "first@0", "padded@4", "inside@9", "again@10"));
}

TEST_P(Cxx, APackIsItsParameters) {
  std::vector<std::string> types;
  for (size_t i = 0; i < 4; ++i)
    types.push_back(proto::spell(*object.parameter("_ZN4shop4packIJlcEEEiiDpT_PKc", i)));
  EXPECT_THAT(types, ElementsAre("int", "long", "char", "string"));
}

TEST_P(Cxx, ReferencesArePointers) {
  EXPECT_EQ(object.spelled("_ZN4shop12by_referenceERKNS_4ItemERPiOS0_"),
            "int by_reference(item=Item*, pointer=int**, moved=Item*)");
}

TEST_P(Cxx, AClassThatIsNotTrivialIsPassedByReference) {
  EXPECT_EQ(object.spelled("_ZN4shop11pass_holderENS_6HolderE"), "int pass_holder(holder=Holder*)");
  EXPECT_EQ(object.spelled("_ZN4shop10pass_shapeENS_5ShapeE"), "int pass_shape(shape=Shape*)");
  EXPECT_EQ(object.spelled("_ZN4shop10pass_ownerENS_5OwnerEi"),
            "Owner* pass_owner(hide(addr), owner=Owner*, n=int)");
}

TEST_P(Cxx, AClassThatIsNotDefinedIsNotPassedByGuess) {
  EXPECT_EQ(object.spelled("_ZN4shop12pass_foreignENS_7ForeignE"),
            "[the debug info does not define Foreign, which is passed by value]");
}

TEST_P(Cxx, ATrivialClassIsPassedByValue) {
  // Clang's DWARF 4 does not tell a defaulted copy constructor from one that does something.
  if (GetParam() == "clang_4") return;
  EXPECT_EQ(object.spelled("_ZN4shop10pass_plainENS_5PlainE"), "long pass_plain(plain=Plain)");
}

TEST_P(Cxx, WideCharactersKeepTheirSize) {
  EXPECT_EQ(object.spelled("_ZN4shop10charactersEDsPKDsPKwDn"),
            "char16 characters(c=char16, text=string(ushort), wide=string(uint), nullptr_t)");
  EXPECT_EQ(object.parameter("_ZN4shop10charactersEDsPKDsPKwDn", 0)->size, 2u);
}

TEST_P(Cxx, PointersToMembersHaveOneWordOrTwo) {
  EXPECT_EQ(object.parameter("_ZN4shop7membersEMNS_4ItemEiMS0_KFiiE", 0)->size, 8u);
  EXPECT_EQ(object.parameter("_ZN4shop7membersEMNS_4ItemEiMS0_KFiiE", 1)->size, 16u);
}

}  // namespace
}  // namespace rtrace::dwarf::cxx_test
