#include "rtrace/loader/rendezvous.h"

#include <dlfcn.h>
#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <link.h>

#include <array>
#include <fstream>
#include <string>

namespace rtrace::loader::rendezvous_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr VirtAddr kDebug{0x1000}, kDebug2{0x1800}, kBreak{0x7000'1000};

// A process's memory with the structures of the dynamic linker in it.
class MadeUp : public BufferMemory {
 public:
  void debug(VirtAddr at, int version, VirtAddr map, LinkState state, VirtAddr next = {}) {
    r_debug_extended value{};
    value.base.r_version = version;
    value.base.r_map = reinterpret_cast<link_map*>(map.value);
    value.base.r_brk = kBreak.value;
    value.base.r_state = static_cast<decltype(value.base.r_state)>(state);
    value.r_next = reinterpret_cast<r_debug_extended*>(next.value);
    if (version >= 2)
      add_value(at, value);
    else
      add_value(at, value.base);
  }

  void entry(VirtAddr at, uint64_t bias, const std::string& name, VirtAddr next) {
    link_map value{};
    value.l_addr = bias;
    value.l_name = reinterpret_cast<char*>(at.value + 0x100);
    value.l_ld = reinterpret_cast<Elf64_Dyn*>(bias + 0x3000);
    value.l_next = reinterpret_cast<link_map*>(next.value);
    add_value(at, value);
    add(at + 0x100, name + '\0');
  }
};

LinkMapEntry made_entry(uint64_t at, uint64_t bias, std::string name, int link_namespace = 0) {
  return {{at}, {bias}, {bias + 0x3000}, std::move(name), link_namespace};
}

MadeUp two_objects(LinkState state = LinkState::consistent) {
  MadeUp memory;
  memory.debug(kDebug, 1, {0x2000}, state);
  memory.entry({0x2000}, 0x10000, "", {0x3000});
  memory.entry({0x3000}, 0x20000, "/lib/libx.so", {});
  return memory;
}

TEST(Rendezvous, ReadsTheChainInItsOrder) {
  auto map = Rendezvous(kDebug).read(two_objects());
  ASSERT_TRUE(map.has_value());
  EXPECT_THAT(map->entries,
              ElementsAre(made_entry(0x2000, 0x10000, ""), made_entry(0x3000, 0x20000, "/lib/libx.so")));
  EXPECT_EQ(map->state, LinkState::consistent);
  EXPECT_FALSE(map->truncated);
}

TEST(Rendezvous, SaysWhichChangeIsUnderWay) {
  for (LinkState state : {LinkState::adding, LinkState::deleting})
    EXPECT_EQ(Rendezvous(kDebug).read(two_objects(state))->state, state);
}

TEST(Rendezvous, ReadsNoEntriesOfAMapThatChangesWhereNobodyLooksAtThem) {
  constexpr auto kStateOnly = Rendezvous::WhileChanging::state_only;
  for (LinkState state : {LinkState::adding, LinkState::deleting}) {
    const auto map = Rendezvous(kDebug).read(two_objects(state), kStateOnly);
    ASSERT_TRUE(map.has_value());
    EXPECT_EQ(map->state, state);
    EXPECT_TRUE(map->entries.empty());
  }
  EXPECT_EQ(Rendezvous(kDebug).read(two_objects(), kStateOnly)->entries.size(), 2U);
  EXPECT_FALSE(Rendezvous({0x9000}).read(two_objects(), kStateOnly).has_value());
}

TEST(Rendezvous, HasNotBegunWhereAllIsZero) {
  EXPECT_TRUE(Rendezvous(kDebug).begun(two_objects()));
  BufferMemory zeros;
  zeros.add_value(kDebug, std::array<std::byte, 48>{});
  EXPECT_FALSE(Rendezvous(kDebug).begun(zeros));
  EXPECT_FALSE(Rendezvous(kDebug).read(zeros).has_value());
  EXPECT_TRUE(Rendezvous({0x9000}).begun(zeros));  // cannot be read
}

TEST(Rendezvous, KnowsItsBreakpoint) {
  EXPECT_EQ(Rendezvous(kDebug).breakpoint(two_objects()), kBreak);
  EXPECT_FALSE(Rendezvous({0x9000}).breakpoint(two_objects()).has_value());
}

TEST(Rendezvous, FollowsNamespacesAndReportsTheOneThatChanges) {
  MadeUp memory;
  memory.debug(kDebug, 2, {0x2000}, LinkState::consistent, kDebug2);
  memory.debug(kDebug2, 2, {0x3000}, LinkState::adding);
  memory.entry({0x2000}, 0x10000, "", {});
  memory.entry({0x3000}, 0x20000, "/lib/libx.so", {0x4000});
  memory.entry({0x4000}, 0x30000, "/lib/libc.so.6", {});
  auto map = Rendezvous(kDebug).read(memory);
  ASSERT_TRUE(map.has_value());
  EXPECT_THAT(map->entries,
              ElementsAre(made_entry(0x2000, 0x10000, "", 0), made_entry(0x3000, 0x20000, "/lib/libx.so", 1),
                          made_entry(0x4000, 0x30000, "/lib/libc.so.6", 1)));
  EXPECT_EQ(map->state, LinkState::adding);
  EXPECT_FALSE(map->truncated);
}

TEST(Rendezvous, IgnoresWhatLiesBehindAnOldStructure) {
  MadeUp memory = two_objects();
  memory.add_value(kDebug + sizeof(r_debug), uint64_t{0xdeadbeef});
  auto map = Rendezvous(kDebug).read(memory);
  EXPECT_THAT(map->entries, SizeIs(2));
  EXPECT_FALSE(map->truncated);
}

TEST(Rendezvous, EndsAtACycleOfEntries) {
  MadeUp memory = two_objects();
  memory.entry({0x3000}, 0x20000, "/lib/libx.so", {0x2000});
  auto map = Rendezvous(kDebug).read(memory);
  EXPECT_THAT(map->entries, SizeIs(2));
  EXPECT_TRUE(map->truncated);
}

TEST(Rendezvous, EndsAtACycleOfNamespaces) {
  MadeUp memory;
  memory.debug(kDebug, 2, {0x2000}, LinkState::consistent, kDebug2);
  memory.debug(kDebug2, 2, {}, LinkState::consistent, kDebug2);  // itself, and no entries that would repeat
  memory.entry({0x2000}, 0x10000, "", {});
  auto map = Rendezvous(kDebug).read(memory);
  EXPECT_THAT(map->entries, SizeIs(1));
  EXPECT_TRUE(map->truncated);
}

TEST(Rendezvous, KeepsWhatStandsBeforeAnUnreadableEntry) {
  MadeUp memory = two_objects();
  memory.entry({0x3000}, 0x20000, "/lib/libx.so", {0xdead0000});
  auto map = Rendezvous(kDebug).read(memory);
  EXPECT_THAT(map->entries, SizeIs(2));
  EXPECT_TRUE(map->truncated);
}

TEST(Rendezvous, SaysSoWhenANamespaceCannotBeRead) {
  MadeUp memory;
  memory.debug(kDebug, 2, {0x2000}, LinkState::consistent, {0xdead0000});
  memory.entry({0x2000}, 0x10000, "", {});
  auto map = Rendezvous(kDebug).read(memory);
  EXPECT_THAT(map->entries, SizeIs(1));
  EXPECT_TRUE(map->truncated);
}

TEST(Rendezvous, BoundsNames) {
  MadeUp memory = two_objects();
  memory.entry({0x3000}, 0x20000, std::string(3 * kMaxNameLength, 'n'), {});
  auto map = Rendezvous(kDebug).read(memory);
  ASSERT_THAT(map->entries, SizeIs(2));
  EXPECT_THAT(map->entries[1].name, SizeIs(kMaxNameLength));
}

// An endless chain that repeats nothing: each entry's successor lies 64 bytes on.
TEST(Rendezvous, BoundsTheNumberOfEntries) {
  struct Endless : Memory {
    size_t read(VirtAddr address, std::span<std::byte> out) const override {
      if (address == kDebug) return head.read(address, out);
      std::array<uint64_t, 5> entry = {address.value, 0, 0, address.value + 64, 0};
      auto bytes = std::as_bytes(std::span(entry));
      size_t size = std::min(out.size(), bytes.size());
      std::copy_n(bytes.begin(), size, out.begin());
      return size;
    }
    MadeUp head;
  } memory;
  memory.head.debug(kDebug, 1, {0x2000}, LinkState::consistent);
  auto map = Rendezvous(kDebug).read(memory);
  EXPECT_THAT(map->entries, SizeIs(kMaxEntries));
  EXPECT_TRUE(map->truncated);
}

TEST(Rendezvous, DoesNotTakeNonsenseForAMap) {
  EXPECT_FALSE(Rendezvous(kDebug).read(MadeUp{}).has_value());
  MadeUp memory = two_objects();
  for (int version : {0, -1, 0x41414141}) {
    memory.debug(kDebug, version, {0x2000}, LinkState::consistent);
    EXPECT_FALSE(Rendezvous(kDebug).read(memory).has_value()) << version;
  }
  memory.debug(kDebug, 1, {0x2000}, static_cast<LinkState>(77));
  EXPECT_FALSE(Rendezvous(kDebug).read(memory).has_value());
}

TEST(Rendezvous, IsFoundThroughDtDebugOnceItIsFilledIn) {
  constexpr VirtAddr kDynamic{0x5000};
  auto with = [&](std::vector<Elf64_Dyn> entries) {
    BufferMemory memory;
    memory.add(kDynamic, std::as_bytes(std::span(entries)));
    return Rendezvous::find(memory, kDynamic);
  };
  auto entry = [](int64_t tag, uint64_t value) {
    Elf64_Dyn made{};
    made.d_tag = tag;
    made.d_un.d_ptr = value;
    return made;
  };
  auto found = with({entry(DT_NEEDED, 1), entry(DT_DEBUG, kDebug.value), entry(DT_NULL, 0)});
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->address(), kDebug);
  EXPECT_FALSE(with({entry(DT_DEBUG, 0), entry(DT_NULL, 0)}).has_value());
  EXPECT_FALSE(with({entry(DT_NEEDED, 1), entry(DT_NULL, 0), entry(DT_DEBUG, kDebug.value)}).has_value());
  EXPECT_FALSE(with(std::vector<Elf64_Dyn>(5000, entry(DT_NEEDED, 1))).has_value());
  EXPECT_FALSE(with({}).has_value());
}

// The real thing: this very process.
TEST(Rendezvous, ReadsTheLinkMapOfARunningProcess) {
  struct Own : Memory {
    std::ifstream file{"/proc/self/mem", std::ios::binary};
    size_t read(VirtAddr address, std::span<std::byte> out) const override {
      auto& in = const_cast<std::ifstream&>(file);
      in.clear();
      in.seekg(static_cast<std::streamoff>(address.value));
      in.read(reinterpret_cast<char*>(out.data()), static_cast<std::streamsize>(out.size()));
      return static_cast<size_t>(in.gcount());
    }
  } memory;
  auto found = Rendezvous::find(memory, {reinterpret_cast<uint64_t>(_DYNAMIC)});
  ASSERT_TRUE(found.has_value());
  Dl_info around_breakpoint{};
  ASSERT_NE(dladdr(reinterpret_cast<void*>(found->breakpoint(memory)->value), &around_breakpoint), 0);
  EXPECT_THAT(around_breakpoint.dli_fname, testing::HasSubstr("ld-linux"));
  auto map = found->read(memory);
  ASSERT_TRUE(map.has_value());
  EXPECT_FALSE(map->truncated);
  std::vector<std::pair<uint64_t, std::string>> ours, expected;
  for (const LinkMapEntry& entry : map->entries) ours.emplace_back(entry.bias.value, entry.name);
  auto add = [](dl_phdr_info* info, size_t, void* to) {
    static_cast<decltype(expected)*>(to)->emplace_back(info->dlpi_addr, info->dlpi_name);
    return 0;
  };
  dl_iterate_phdr(add, &expected);
  EXPECT_EQ(ours, expected);
}

struct DiffRow {
  const char* what;
  std::vector<LinkMapEntry> before, after, added, removed;
};

TEST(Diff, IsWhatOneSideHasAndTheOtherLacks) {
  const LinkMapEntry a = made_entry(0x2000, 0x10000, ""), b = made_entry(0x3000, 0x20000, "/b.so");
  const LinkMapEntry c = made_entry(0x4000, 0x30000, "/c.so");
  const LinkMapEntry other_at_b = made_entry(0x3000, 0x20000, "/other.so");
  const LinkMapEntry b_moved = made_entry(0x3000, 0x50000, "/b.so"),
                     b_elsewhere = made_entry(0x3000, 0x20000, "/b.so", 1);
  for (const DiffRow& row : {
           DiffRow{"nothing", {a, b}, {a, b}, {}, {}},
           DiffRow{"order alone is no change", {a, b, c}, {a, c, b}, {}, {}},
           DiffRow{"a load", {a}, {a, c, b}, {c, b}, {}},
           DiffRow{"an unload", {a, c, b}, {a}, {}, {c, b}},
           DiffRow{"the same struct and base, another file", {a, b}, {a, other_at_b}, {other_at_b}, {b}},
           DiffRow{"the same file at another base", {a, b}, {a, b_moved}, {b_moved}, {b}},
           DiffRow{"another namespace", {a, b}, {a, b_elsewhere}, {b_elsewhere}, {b}},
           DiffRow{"an exec", {a, b}, {}, {}, {a, b}},
       }) {
    Changes changes = diff({.entries = row.before}, {.entries = row.after});
    EXPECT_EQ(changes.added, row.added) << row.what;
    EXPECT_EQ(changes.removed, row.removed) << row.what;
    EXPECT_EQ(changes.empty(), row.added.empty() && row.removed.empty()) << row.what;
  }
}

// Ten thousand entries that all borrow one long name.
TEST(Rendezvous, BoundsAllNamesTogether) {
  MadeUp memory;
  memory.debug(kDebug, 1, {0x100000}, LinkState::consistent);
  memory.add({0x20000}, std::string(kMaxNameLength, 'n'));
  constexpr uint64_t kCount = 10000;
  for (uint64_t i = 0; i < kCount; ++i) {
    link_map value{};
    value.l_name = reinterpret_cast<char*>(0x20000);
    value.l_next = reinterpret_cast<link_map*>(0x100000 + (i + 1) * 64);
    memory.add_value({0x100000 + i * 64}, value);
  }
  auto map = Rendezvous(kDebug).read(memory);
  ASSERT_TRUE(map.has_value());
  EXPECT_TRUE(map->truncated);
  EXPECT_EQ(map->entries.size(), kMaxNames / kMaxNameLength);
}

}  // namespace
}  // namespace rtrace::loader::rendezvous_test
