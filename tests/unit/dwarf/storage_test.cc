// Where debug information lies, and what it does when it is broken.
#include <elf.h>

#include <cstring>
#include <random>

#include "fixtures.h"
#include "rtrace/base/error.h"

namespace rtrace::dwarf::storage_test {
namespace {

using ::testing::HasSubstr;

constexpr const char* kGreet = "void greet(s=string, c=color, p=point*, d=double)";

TEST(Storage, CompressedSectionsAreRead) {
  EXPECT_EQ(Object("compressed.so").spelled("greet"), kGreet);
}

TEST(Storage, TypesInUnitsOfTheirOwnAreFound) {
  EXPECT_EQ(Object("type_units.so").spelled("greet"), kGreet);
  Object object("type_units.so");
  EXPECT_NE(proto::resolve(object.parameter("list", 0)->inner), nullptr);
}

TEST(Storage, AFileWithoutDebugInformationHasNone) {
  EXPECT_EQ(Object("none.so").debug, nullptr);
}

TEST(Storage, TheSeparateDebugFileServesAStrippedObject) {
  Object object("apart.stripped");
  EXPECT_FALSE(object.file->has_debug_info());
  ASSERT_NE(object.debug, nullptr);
  EXPECT_EQ(object.debug->path(), fixture("apart.debug"));
  EXPECT_EQ(object.spelled("greet"), kGreet);
}

TEST(Storage, SplitDebugInformationIsDeclinedByName) {
  for (const std::string& compiler : compilers()) {
    const std::string name = "split_" + compiler + ".so";
    Object object(name);
    ASSERT_NE(object.debug, nullptr) << name;
    EXPECT_THAT(object.spelled("greet"), HasSubstr("-gsplit-dwarf")) << name;
    EXPECT_THAT(object.spelled("greet"), HasSubstr(".dwo")) << name;
  }
}

TEST(Storage, AnAddressInNoUnitIsSaidToBeUnknown) {
  Object object("types_gcc_5.so");
  EXPECT_THAT(object.debug->function_at({1}).reason, HasSubstr("does not describe it"));
  auto inside = object.file->find_function("floats").at(0).address + 1;
  EXPECT_EQ(object.debug->function_at(inside).prototype, nullptr);
}

TEST(Declarations, OfCalledFunctionsAreFoundByName) {
  for (const std::string& compiler : compilers()) {
    const std::string name = "caller_" + compiler + ".so";
    Object object(name);
    Answer answer = object.debug->declaration_of("elsewhere");
    ASSERT_NE(answer.prototype, nullptr) << name << ": " << answer.reason;
    EXPECT_EQ(answer.prototype->returns->kind, proto::Type::Kind::integer);
    ASSERT_EQ(answer.prototype->params.size(), 2u);
    EXPECT_EQ(answer.prototype->params[0].type->kind, proto::Type::Kind::string);
    EXPECT_THAT(answer.prototype->origin, HasSubstr("declared in"));
  }
}

TEST(Declarations, WithoutParametersSayNothing) {
  Object object("caller_gcc.so");
  EXPECT_EQ(object.debug->declaration_of("nothing_known").prototype, nullptr);
  EXPECT_EQ(object.debug->declaration_of("no_such_function").prototype, nullptr);
  EXPECT_EQ(object.debug->declaration_of("call").prototype, nullptr);
}

// Asks a damaged copy of an object everything. What counts is that it ends, and that names stay printable.
void ask_everything(const std::string& bytes, const std::vector<ElfAddr>& addresses) {
  UniqueFd fd(memfd_create("damaged", MFD_CLOEXEC));
  ASSERT_EQ(::write(fd.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  auto debug = DebugInfo::open(std::move(fd), "damaged");
  if (debug == nullptr) return;
  debug->declaration_of("elsewhere");
  for (ElfAddr address : addresses) {
    Answer answer = debug->function_at(address);
    if (!answer.prototype) continue;
    for (char c : proto::spell(*answer.prototype))
      ASSERT_TRUE(c >= ' ' && c < 0x7f) << proto::spell(*answer.prototype);
  }
}

TEST(Damaged, DebugInformationNeitherCrashesNorHangs) {
  const char* rounds = std::getenv("RTRACE_FUZZ_ROUNDS");
  const int count = rounds != nullptr ? std::atoi(rounds) : 150;
  std::mt19937 random(4711);
  for (const std::string kind : {"types_", "classes_"})
    for (const std::string& producer : producers()) {
      const std::string name = kind + producer + ".so";
      Object object(name);
      std::vector<ElfAddr> addresses;
      for (const auto& symbol : object.file->functions()) addresses.push_back(symbol.address);
      const std::string whole = bytes_of(fixture(name));
      Elf64_Ehdr header;
      std::memcpy(&header, whole.data(), sizeof header);
      // The debug sections lie behind the loaded parts, and the section headers behind them.
      const size_t first = whole.size() / 3;
      std::uniform_int_distribution<size_t> where(first, header.e_shoff - 1);
      for (int round = 0; round < count; ++round) {
        std::string damaged = whole;
        for (int i = 0; i <= round % 16; ++i) damaged[where(random)] = static_cast<char>(random());
        ask_everything(damaged, addresses);
      }
      for (size_t size = first; size < whole.size(); size += 997)
        ask_everything(whole.substr(0, size), addresses);
    }
}

}  // namespace
}  // namespace rtrace::dwarf::storage_test
