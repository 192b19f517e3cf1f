#include <gtest/gtest.h>

#include "elf/fixtures.h"

namespace rtrace::elf::call_slots_test {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

struct Variant {
  const char* name;
  bool stubs;  // of functions that are only called
  bool endbr;  // the stub begins with endbr64
};

class CallSlotsOf : public testing::TestWithParam<Variant> {};

void expect_sound_slots(const ElfFile& file, const Variant& variant) {
  for (const char* name : {"getenv", "strtol"}) {
    SCOPED_TRACE(name);
    const CallSlot* slot = slot_of(file, name);
    ASSERT_NE(slot, nullptr);
    ASSERT_EQ(slot->stub.has_value(), variant.stubs);
    if (!variant.stubs) continue;
    EXPECT_EQ(slot->relocation, CallSlot::Relocation::jump_slot);
    EXPECT_EQ(slot_read_by_stub(file, *slot->stub), slot->slot);
    EXPECT_EQ(file.bytes_at(*slot->stub, 1)[0] == std::byte{0xf3}, variant.endbr);
  }
  const CallSlot* called = slot_of(file, "strtol");
  ASSERT_NE(called, nullptr);
  EXPECT_EQ(called->version, "GLIBC_2.2.5");
}

TEST_P(CallSlotsOf, NameTheFunctionOfTheSlotThatTheStubReads) {
  expect_sound_slots(*open_fixture(GetParam().name), GetParam());
}

TEST_P(CallSlotsOf, AreTheSameWithoutSectionHeaders) {
  auto whole = open_fixture(GetParam().name);
  auto cut = open_without_sections(fixture(GetParam().name));
  ASSERT_NE(cut, nullptr);
  expect_sound_slots(*cut, GetParam());
  ASSERT_EQ(cut->call_slots().size(), whole->call_slots().size());
  for (size_t i = 0; i < whole->call_slots().size(); ++i) {
    const CallSlot &a = whole->call_slots()[i], &b = cut->call_slots()[i];
    SCOPED_TRACE(a.name);
    EXPECT_EQ(a.name, b.name);
    EXPECT_EQ(a.slot, b.slot);
    EXPECT_EQ(a.stub, b.stub);
    EXPECT_EQ(a.version, b.version);
  }
}

INSTANTIATE_TEST_SUITE_P(EachWayOfLinking, CallSlotsOf,
                         testing::Values(Variant{"lazy", true, false}, Variant{"now", true, false},
                                         Variant{"ibt_lazy", true, true}, Variant{"ibt_now", true, true},
                                         Variant{"no_pie", true, false}, Variant{"no_plt", false, false},
                                         Variant{"stripped", true, false}, Variant{"sysv_hash", true, false}),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(CallSlots, GiveAnAddressTakenFunctionItsPltGotStub) {
  auto file = open_fixture("lazy");
  const CallSlot* puts = slot_of(*file, "puts");
  ASSERT_NE(puts, nullptr);
  EXPECT_EQ(puts->relocation, CallSlot::Relocation::glob_dat);
  ASSERT_TRUE(puts->stub.has_value());
  EXPECT_EQ(slot_read_by_stub(*file, *puts->stub), puts->slot);
  EXPECT_FALSE(puts->called_directly);
}

TEST(CallSlots, OfNoPltCodeAreCalledDirectlyAndTailCalled) {
  for (const auto& file : {open_fixture("no_plt"), open_without_sections(fixture("no_plt"))}) {
    const CallSlot* puts = slot_of(*file, "puts");
    ASSERT_NE(puts, nullptr);
    EXPECT_TRUE(puts->called_directly);
    EXPECT_FALSE(puts->stub.has_value());
    const CallSlot* strtol = slot_of(*file, "strtol");
    ASSERT_NE(strtol, nullptr);
    EXPECT_TRUE(strtol->called_directly);
    auto caller = file->find_function("tail_caller");
    auto tail_calls = [&] {
      std::vector<ElfAddr> all;
      for (const CallSlot& slot : file->call_slots())
        all.insert(all.end(), slot.tail_jumps.begin(), slot.tail_jumps.end());
      return all;
    }();
    ASSERT_THAT(tail_calls, SizeIs(1));
    auto bytes = file->bytes_at(tail_calls[0], 2);
    EXPECT_EQ(bytes[0], std::byte{0xff});
    EXPECT_EQ(bytes[1], std::byte{0x25});
    if (!file->stripped()) {
      ASSERT_THAT(caller, SizeIs(1));
      EXPECT_LT(tail_calls[0] - caller[0].address, caller[0].size);
    }
  }
}

TEST(CallSlots, WhereTheAddressIsLoadedIsKnown) {
  for (const char* name : {"no_plt", "lazy"}) {
    const auto file = open_fixture(name);
    const CallSlot* puts = slot_of(*file, "puts");
    ASSERT_NE(puts, nullptr);
    ASSERT_FALSE(puts->loads.empty()) << name;
    for (const ElfAddr load : puts->loads) EXPECT_EQ(file->bytes_at(load, 1)[0], std::byte{0x8b}) << name;
    const CallSlot* strtol = slot_of(*file, "strtol");
    ASSERT_NE(strtol, nullptr);
    EXPECT_THAT(strtol->loads, IsEmpty()) << name;
  }
}

TEST(CallSlots, FoundByNameSayTheSameAsTheWholeList) {
  for (const char* name : {"lazy", "ibt_now", "no_plt"}) {
    auto all = open_fixture(name), asked = open_fixture(name);
    for (const CallSlot& slot : all->call_slots()) {
      auto found = asked->find_call_slots(slot.name);
      ASSERT_THAT(found, SizeIs(1)) << slot.name;
      EXPECT_EQ(found[0].slot, slot.slot);
      EXPECT_EQ(found[0].stub, slot.stub);
      EXPECT_EQ(found[0].called_directly, slot.called_directly) << slot.name;
      EXPECT_EQ(found[0].tail_jumps, slot.tail_jumps);
      EXPECT_EQ(found[0].loads, slot.loads);
    }
    EXPECT_THAT(asked->find_call_slots("no_such_function"), IsEmpty());
  }
}

TEST(CallSlots, FoundByAConditionSayTheSameAsTheWholeList) {
  for (const char* name : {"lazy", "ibt_now", "no_plt"}) {
    auto all = open_fixture(name), asked = open_fixture(name);
    std::vector<std::string_view> names;
    for (const CallSlot& slot : all->call_slots()) {
      const auto found = asked->find_call_slots([&](const CallSlot& one) { return one.slot == slot.slot; });
      ASSERT_THAT(found, SizeIs(1)) << slot.name;
      EXPECT_EQ(found[0].name, slot.name);
      EXPECT_EQ(found[0].stub, slot.stub);
      EXPECT_EQ(found[0].called_directly, slot.called_directly) << slot.name;
      EXPECT_EQ(found[0].tail_jumps, slot.tail_jumps);
      EXPECT_EQ(found[0].loads, slot.loads);
      names.push_back(slot.name);
    }
    std::vector<std::string_view> asked_names;
    for (const CallSlot& slot : asked->find_call_slots([](const CallSlot&) { return true; }))
      asked_names.push_back(slot.name);
    EXPECT_EQ(asked_names, names);
    EXPECT_THAT(asked->find_call_slots([](const CallSlot&) { return false; }), IsEmpty());
  }
}

TEST(CallSlots, FoundByNamesWithTheirDefinerAreTheSame) {
  const auto definer = ElfFile::open("/lib/x86_64-linux-gnu/libc.so.6");
  constexpr std::string_view kNames[] = {"sigprocmask", "pthread_sigmask", "no_such_function"};
  for (const char* path : {"/usr/lib/x86_64-linux-gnu/libLLVM-14.so.1", "/usr/bin/python3", "/bin/bash"}) {
    SCOPED_TRACE(path);
    const auto all = ElfFile::open(path), asked = ElfFile::open(path);
    std::vector<std::pair<std::string_view, ElfAddr>> expected, found;
    for (const CallSlot& slot : all->call_slots())
      if (std::ranges::find(kNames, slot.name) != std::end(kNames))
        expected.emplace_back(slot.name, slot.stub.value_or(slot.slot));
    for (const CallSlot& slot : asked->find_call_slots(kNames, definer.get()))
      found.emplace_back(slot.name, slot.stub.value_or(slot.slot));
    EXPECT_THAT(expected, testing::Not(IsEmpty()));
    EXPECT_EQ(found, expected);
  }
}

TEST(CallSlots, OfAStaticProgramAreNoneButItsIrelativeSlotsAreKnown) {
  auto file = open_fixture("static");
  EXPECT_THAT(file->call_slots(), IsEmpty());
  auto strlen_symbol = file->find_function("strlen");
  ASSERT_THAT(strlen_symbol, SizeIs(1));
  EXPECT_TRUE(strlen_symbol[0].ifunc);
  EXPECT_TRUE(std::ranges::any_of(file->irelative_slots(), [&](const IrelativeSlot& slot) {
    return slot.resolver == strlen_symbol[0].address;
  }));
}

TEST(CallSlots, OfAStaticPieHaveIrelativeOnes) {
  EXPECT_THAT(open_fixture("static_pie")->irelative_slots(), testing::Not(IsEmpty()));
}

TEST(CallSlots, DoNotTakeDataForFunctions) {
  auto libc = ElfFile::open("/lib/x86_64-linux-gnu/libc.so.6");
  EXPECT_EQ(slot_of(*libc, "_rtld_global"), nullptr);  // a GLOB_DAT of an OBJECT
  EXPECT_EQ(slot_of(*libc, "stdout"), nullptr);
  EXPECT_NE(slot_of(*libc, "realloc"), nullptr);  // interposable: libc calls its own by the PLT
}

TEST(CallSlots, KeepTheirNamesAroundIrelativeRelocations) {
  auto php = [] {
    try {
      return ElfFile::open("/usr/bin/php8.2");
    } catch (const Error&) {
      return std::shared_ptr<const ElfFile>();
    }
  }();
  if (php == nullptr) GTEST_SKIP() << "php8.2 is not installed";
  ASSERT_THAT(php->irelative_slots(), testing::Not(IsEmpty()));
  for (const char* name : {"recv", "SSL_CTX_use_PrivateKey_file", "memcpy", "write"}) {
    const CallSlot* slot = slot_of(*php, name);
    ASSERT_NE(slot, nullptr) << name;
    ASSERT_TRUE(slot->stub.has_value()) << name;
    EXPECT_EQ(slot_read_by_stub(*php, *slot->stub), slot->slot) << name;
  }
  for (const CallSlot& slot : php->call_slots()) {
    EXPECT_TRUE(slot.stub || slot.relocation == CallSlot::Relocation::glob_dat) << slot.name;
    if (slot.stub) {
      EXPECT_EQ(slot_read_by_stub(*php, *slot.stub), slot.slot) << slot.name;
    }
  }
}

// Their .gnu.hash begins wherever the linker likes, or holds the import whose address is taken.
TEST(Imports, OfObjectsThatExportNothingAreFound) {
  for (const char* name : {"mute.so", "mute_no_pie"}) {
    SCOPED_TRACE(name);
    EXPECT_THAT(open_fixture(name)->find_call_slots("write"), testing::Not(IsEmpty()));
    const auto file = open_fixture(name);
    EXPECT_NE(std::ranges::find(file->imports(), std::string_view("write"), &ElfFile::Import::name),
              file->imports().end());
  }
}

TEST(Imports, AreFoundByNameWithAndWithoutTheTableOfAll) {
  const auto libc = ElfFile::open("/lib/x86_64-linux-gnu/libc.so.6");
  const auto libm = ElfFile::open("/lib/x86_64-linux-gnu/libm.so.6");
  const auto imports = [](const ElfFile& file, std::string_view name, const ElfFile* definer = nullptr) {
    return file.imports_any(std::span(&name, 1), definer);
  };
  for (const char* path : {"/usr/lib/x86_64-linux-gnu/libLLVM-14.so.1", "/usr/bin/python3"}) {
    SCOPED_TRACE(path);
    const auto file = ElfFile::open(path), listed = ElfFile::open(path);
    ASSERT_GT(listed->imports().size(), 256u) << "few enough for all of their names to be read";
    for (const ElfFile::Import& import : listed->imports()) {
      EXPECT_TRUE(imports(*file, import.name)) << import.name;
      EXPECT_TRUE(imports(*listed, import.name)) << import.name;
      const ElfFile* definer = import.from == "libc.so.6"   ? libc.get()
                               : import.from == "libm.so.6" ? libm.get()
                                                            : nullptr;
      EXPECT_TRUE(imports(*file, import.name, definer)) << import.name;
    }
    EXPECT_FALSE(imports(*file, "no_such_function"));
    EXPECT_FALSE(imports(*file, "LLVMInitializeCore")) << "what it defines";
    EXPECT_FALSE(imports(*file, ""));
  }
}

TEST(Imports, SayWhichLibraryTheVersionComesFrom) {
  for (const auto& file : {open_fixture("lazy"), open_without_sections(fixture("lazy"))}) {
    auto found = std::ranges::find(file->imports(), std::string_view("puts"), &ElfFile::Import::name);
    ASSERT_NE(found, file->imports().end());
    EXPECT_EQ(found->from, "libc.so.6");
  }
}

}  // namespace
}  // namespace rtrace::elf::call_slots_test
