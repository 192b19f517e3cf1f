#include <gtest/gtest.h>

#include <filesystem>

#include "elf/fixtures.h"
#include "rtrace/elf/debug_file.h"
#include "rtrace/elf/loaded_object.h"

namespace rtrace::elf::symbols_test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

const ElfFile& libc() {
  static auto file = ElfFile::open("/lib/x86_64-linux-gnu/libc.so.6");
  return *file;
}

TEST(Exports, BindToTheDefaultVersionUnlessOneIsAsked) {
  auto newest = libc().find_exported("memcpy"), named = libc().find_exported("memcpy", "GLIBC_2.14");
  auto oldest = libc().find_exported("memcpy", "GLIBC_2.2.5");
  ASSERT_TRUE(newest && named && oldest);
  EXPECT_EQ(newest->version, "GLIBC_2.14");
  EXPECT_EQ(newest->address, named->address);
  EXPECT_TRUE(named->default_version);
  EXPECT_FALSE(oldest->default_version);
  EXPECT_NE(oldest->address, named->address);
  EXPECT_FALSE(libc().find_exported("memcpy", "GLIBC_9.9").has_value());
}

TEST(Exports, OfLibcAreFound) {
  ASSERT_TRUE(libc().find_exported("malloc").has_value());
  EXPECT_GT(libc().find_exported("malloc")->size, 0u);
  EXPECT_FALSE(libc().find_exported("mallocx").has_value());
  EXPECT_FALSE(libc().find_exported("").has_value());
  auto strlen_symbol = libc().find_function("strlen");
  ASSERT_THAT(strlen_symbol, SizeIs(1));
  EXPECT_TRUE(strlen_symbol[0].ifunc);
}

TEST(Exports, FollowTheVersionScriptOfALibrary) {
  for (const auto& file : {open_fixture("library.so"), open_without_sections(fixture("library.so"))}) {
    auto by_default = file->find_exported("versioned"), old = file->find_exported("versioned", "FIX_1");
    ASSERT_TRUE(by_default && old);
    EXPECT_EQ(by_default->version, "FIX_2");
    EXPECT_FALSE(old->default_version);
    EXPECT_NE(by_default->address, old->address);
    EXPECT_FALSE(file->find_exported("hidden").has_value());
    EXPECT_FALSE(file->find_exported("data_object").has_value());
    EXPECT_TRUE(file->find_symbol("data_object").has_value());
    EXPECT_TRUE(file->find_exported("chosen")->ifunc);
  }
}

TEST(Exports, AreFoundThroughTheOldHashTable) {
  for (const auto& file : {open_fixture("sysv_hash"), open_without_sections(fixture("sysv_hash"))}) {
    EXPECT_TRUE(file->find_exported("exported_helper").has_value());
    EXPECT_FALSE(file->find_exported("static_helper").has_value());
    EXPECT_FALSE(file->find_exported("puts").has_value()) << "an import is no definition";
  }
}

TEST(Functions, AreSortedOnceForEachNameAndAddress) {
  auto file = open_fixture("library.so");
  const auto& all = file->functions();
  for (size_t i = 1; i < all.size(); ++i)
    EXPECT_LT(std::pair(all[i - 1].address, all[i - 1].name), std::pair(all[i].address, all[i].name));
  auto named = [&](std::string_view name) { return std::ranges::count(all, name, &Symbol::name); };
  EXPECT_EQ(named("plain"), 1);
  EXPECT_EQ(named("plain_alias"), 1);
  EXPECT_EQ(named("hidden"), 1);
  EXPECT_EQ(named("initialise"), 1);
  EXPECT_EQ(named("data_object"), 0);
  EXPECT_EQ(named("versioned"), 2);
}

TEST(Functions, FoundByNameAreThoseOfTheWholeTable) {
  for (const char* name : {"library.so", "lazy", "static", "no_pie", "sysv_hash"}) {
    auto file = open_fixture(name);
    ASSERT_THAT(file->functions(), testing::Not(IsEmpty())) << name;
    size_t step = std::max<size_t>(1, file->functions().size() / 100);
    for (size_t i = 0; i < file->functions().size(); i += step) {
      const Symbol& symbol = file->functions()[i];
      auto found = file->find_function(symbol.name);
      EXPECT_EQ(static_cast<ptrdiff_t>(found.size()),
                std::ranges::count(file->functions(), symbol.name, &Symbol::name))
          << symbol.name;
      EXPECT_TRUE(std::ranges::any_of(found, [&](const Symbol& s) { return s.address == symbol.address; }))
          << symbol.name;
    }
  }
}

TEST(Functions, ThatAreStaticNeedASymbolTable) {
  auto whole = open_fixture("lazy"), stripped = open_fixture("stripped");
  EXPECT_THAT(whole->find_function("static_helper"), SizeIs(1));
  EXPECT_THAT(stripped->find_function("static_helper"), IsEmpty());
  EXPECT_FALSE(whole->stripped());
  EXPECT_TRUE(stripped->stripped());
}

TEST(Clones, AreThoseOfTheNameAndNeverColdParts) {
  auto file = open_fixture("library.so");
  std::vector<std::string_view> names;
  for (const Symbol& symbol : file->find_clones("work")) names.push_back(symbol.name);
  EXPECT_THAT(names, testing::UnorderedElementsAre("work.isra.0", "work.constprop.1.isra.0", "work.part.12"));
  EXPECT_THAT(file->find_function("work.cold"), SizeIs(1)) << "named exactly";
}

TEST(FunctionAt, IsTheOneThatContainsTheAddressUnderItsBestName) {
  auto file = open_fixture("library.so");
  auto plain = file->find_exported("plain");
  ASSERT_TRUE(plain.has_value());
  EXPECT_EQ(file->function_at(plain->address + (plain->size - 1))->name, "plain");
  EXPECT_FALSE(file->function_at({0}).has_value());
  EXPECT_FALSE(file->function_at({~uint64_t{0}}).has_value());
  auto hidden = file->find_function("hidden");
  ASSERT_THAT(hidden, SizeIs(1));
  EXPECT_EQ(file->function_at(hidden[0].address)->name, "hidden");
}

TEST(DebugFiles, GiveAStrippedObjectItsStaticFunctions) {
  for (const char* name : {"with_debug", "without_id"}) {
    auto whole = open_fixture(name), stripped = open_fixture(std::string(name) + ".stripped");
    ASSERT_TRUE(stripped->stripped());
    auto expected = whole->find_function("static_helper"), found = stripped->find_function("static_helper");
    ASSERT_THAT(expected, SizeIs(1));
    ASSERT_THAT(found, SizeIs(1)) << name;
    EXPECT_EQ(found[0].address, expected[0].address);
    EXPECT_EQ(found[0].table, Symbol::Table::debug_file);
    EXPECT_TRUE(std::ranges::count(stripped->functions(), std::string_view("static_helper"), &Symbol::name) ==
                1);
  }
}

// The link names the file; what it must not do is stand for another build of it.
TEST(DebugFiles, OfAnotherBuildAreNotUsed) {
  auto folder = std::filesystem::temp_directory_path() / ("rtrace_elf_" + std::to_string(getpid()));
  struct Row {
    const char *object, *other;
  };
  for (auto [object, other] : {Row{"with_debug", "library.so"}, Row{"without_id", "lazy"}}) {
    std::filesystem::create_directories(folder);
    std::string copy = folder / object;
    std::filesystem::copy_file(fixture(std::string(object) + ".stripped"), copy,
                               std::filesystem::copy_options::overwrite_existing);
    std::string debug = folder / (std::string(object) + ".debug");
    std::filesystem::copy_file(fixture(other), debug, std::filesystem::copy_options::overwrite_existing);
    EXPECT_THAT(ElfFile::open(copy)->find_function("static_helper"), IsEmpty()) << object;
    std::filesystem::copy_file(fixture(std::string(object) + ".debug"), debug,
                               std::filesystem::copy_options::overwrite_existing);
    EXPECT_THAT(ElfFile::open(copy)->find_function("static_helper"), SizeIs(1)) << object;
    std::filesystem::remove_all(folder);
  }
}

TEST(DebugFiles, ArePlacedAsGdbLooksForThem) {
  const std::array id = {std::byte{0xab}, std::byte{0x01}, std::byte{0xff}};
  EXPECT_EQ(debug_path_of_build_id(id, "/usr/lib/debug"), "/usr/lib/debug/.build-id/ab/01ff.debug");
  EXPECT_EQ(debug_path_of_build_id({}, "/usr/lib/debug"), "");
  EXPECT_THAT(debug_paths_of_link("/usr/bin/x", {"x.debug", 0}, "/usr/lib/debug"),
              ElementsAre("/usr/bin/x.debug", "/usr/bin/.debug/x.debug", "/usr/lib/debug/usr/bin/x.debug"));
  EXPECT_EQ(debug_link_crc(std::as_bytes(std::span("123456789", 9))),
            0xcbf43926u);  // the check value of CRC-32
}

TEST(LoadedObject, MovesAddressesByItsBias) {
  LoadedObject object{.path = "/x/y.so", .bias = {0x7f0000000000}, .file = open_fixture("library.so")};
  EXPECT_EQ(object.name(), "libfixture.so.1");
  auto plain = object.file->find_exported("plain")->address;
  EXPECT_EQ(object.at(plain).value, 0x7f0000000000 + plain.value);
  EXPECT_EQ(object.in_file(object.at(plain)), plain);
  EXPECT_TRUE(object.maps_executable(object.at(plain)));
  EXPECT_FALSE(object.maps_executable(object.at({0})));
  EXPECT_TRUE(object.maps(object.at({0})));
  EXPECT_FALSE(object.maps(object.range().end));
  EXPECT_EQ(object.range().begin.value, 0x7f0000000000);
  object.file = open_fixture("lazy");
  EXPECT_EQ(object.name(), "y.so");
}

TEST(PackedSymbols, NameTheStaticFunctionsOfAStrippedObject) {
  auto packed = open_fixture("packed"), whole = open_fixture("with_debug");
  EXPECT_TRUE(packed->stripped());
  auto found = packed->find_function("static_helper");
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].table, Symbol::Table::debugdata);
  EXPECT_EQ(found[0].address, whole->find_function("static_helper").at(0).address);
  EXPECT_EQ(packed->function_at(found[0].address)->name, "static_helper");
}

TEST(PackedSymbols, AStreamThatDoesNotEndIsAWarningAndNoSymbols) {
  auto file = open_fixture("packed_short");
  EXPECT_THAT(file->find_function("static_helper"), IsEmpty());
  EXPECT_THAT(file->warnings(), Contains(HasSubstr(".gnu_debugdata: not a complete xz stream")));
}

}  // namespace
}  // namespace rtrace::elf::symbols_test
