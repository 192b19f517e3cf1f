#include "rtrace/mech/patch_table.h"

#include <gmock/gmock.h>

#include <cstring>
#include <set>

#include "rtrace/base/mapping.h"
#include "rtrace/mech/heal.h"
#include "rtrace/tracee/process_memory.h"
#include "tracee/child.h"

namespace rtrace::mech::patch_table_test {
namespace {

using tests::Child;
using tests::Pages;
using tests::Pipe;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

class PatchTableTest : public testing::Test {
 protected:
  Patch& at(PatchLedger::Index index) { return table.patches[index]; }

  Mapping memory = Mapping::shared(sizeof(PatchTable));
  PatchTable& table = *reinterpret_cast<PatchTable*>(memory.data());
  PatchLedger ledger{table};
};

TEST_F(PatchTableTest, APublishedEntrySaysWhatWasWrittenWhere) {
  const auto index = ledger.publish(42, VirtAddr{0x401000}, bytes_of("old"), bytes_of("new"));
  ASSERT_NE(index, PatchLedger::kNone);
  EXPECT_LT(index, table.used.load());
  const Patch& patch = at(index);
  EXPECT_EQ(patch.live, 1);
  EXPECT_EQ(patch.pid, 42);
  EXPECT_EQ(patch.address, 0x401000u);
  ASSERT_EQ(patch.length, 3);
  EXPECT_EQ(std::memcmp(patch.original, "old", 3), 0);
  EXPECT_EQ(std::memcmp(patch.written, "new", 3), 0);
  ledger.withdraw(index);
  EXPECT_EQ(patch.live, 0);
}

TEST_F(PatchTableTest, EntriesAreTheirOwnUntilWithdrawnAndThenUsedAgain) {
  std::set<PatchLedger::Index> indices;
  for (uint64_t i = 0; i < 100; ++i)
    indices.insert(ledger.publish(1, VirtAddr{i}, bytes_of("a"), bytes_of("b")));
  EXPECT_EQ(indices.size(), 100u);
  EXPECT_EQ(table.used, 100u);
  ledger.withdraw(7);
  ledger.withdraw(70);
  std::set<PatchLedger::Index> again;
  for (uint64_t address : {0x1111u, 0x2222u})
    again.insert(ledger.publish(2, VirtAddr{address}, bytes_of("a"), bytes_of("b")));
  EXPECT_EQ(again, (std::set<PatchLedger::Index>{7, 70}));
  EXPECT_EQ(table.used, 100u);
  EXPECT_EQ(at(7).live, 1);
  EXPECT_EQ(at(7).pid, 2);
}

TEST_F(PatchTableTest, AFullTableGivesNothingUntilAnEntryComesBack) {
  const auto first = ledger.publish(1, VirtAddr{1}, bytes_of("a"), bytes_of("b"));
  table.used = PatchTable::kCapacity;
  EXPECT_EQ(ledger.publish(1, VirtAddr{2}, bytes_of("a"), bytes_of("b")), PatchLedger::kNone);
  ledger.withdraw(first);
  EXPECT_EQ(ledger.publish(1, VirtAddr{3}, bytes_of("a"), bytes_of("b")), first);
  EXPECT_EQ(table.used, PatchTable::kCapacity);
}

TEST_F(PatchTableTest, NoEntryCanBeWithdrawn) {
  ledger.withdraw(PatchLedger::kNone);
  EXPECT_EQ(ledger.publish(1, VirtAddr{1}, bytes_of("a"), bytes_of("b")), 0u);
}

// A child whose page begins with "what was written here".
class HealTest : public PatchTableTest {
 protected:
  HealTest() {
    std::memcpy(page.data(), "what was written here", 21);
    page.protect(PROT_READ | PROT_EXEC);
    child.emplace([this] { return go.wait() ? 0 : 1; });
  }
  PatchLedger::Index publish(uint64_t offset, std::string_view original, std::string_view written) {
    return ledger.publish(child->pid(), page.address() + offset, bytes_of(original), bytes_of(written));
  }
  std::string text() const {
    std::string out(21, '?');
    tracee::ProcessMemory(child->pid()).read(page.address(), std::as_writable_bytes(std::span(out)));
    return out;
  }

  Pages page{1, PROT_READ | PROT_WRITE};
  Pipe go;
  std::optional<Child> child;
};

TEST_F(HealTest, OnlyWhatStillStandsThereIsPutBack) {
  const auto good = publish(0, "W", "w");
  const auto changed_since = publish(5, "x", "W");
  const auto withdrawn = publish(9, "W", "w");
  ledger.withdraw(withdrawn);
  const auto unmapped = ledger.publish(child->pid(), VirtAddr{0x1000}, bytes_of("a"), bytes_of("b"));
  EXPECT_EQ(heal(table, Standing::all), 1u);
  EXPECT_EQ(text(), "What was written here");
  for (auto index : {good, changed_since, unmapped}) EXPECT_EQ(at(index).live, 0) << index;
  EXPECT_EQ(heal(table, Standing::all), 0u);
}

TEST_F(HealTest, AProcessThatIsGoneDoesNotKeepOthersFromBeingHealed) {
  Child gone([] { return 0; });
  const pid_t pid = gone.pid();
  ASSERT_EQ(gone.end(), 0);
  ledger.publish(pid, page.address(), bytes_of("x"), bytes_of("w"));
  ledger.publish(pid, page.address() + 1, bytes_of("x"), bytes_of("h"));
  publish(0, "W", "w");
  EXPECT_EQ(heal(table, Standing::all), 1u);
  EXPECT_EQ(text(), "What was written here");
}

TEST_F(HealTest, CodeOnLoanIsLeftToWhoeverStopsItsThreads) {
  publish(0, "THAT", "what");
  EXPECT_EQ(heal(table, Standing::all), 0u);
  EXPECT_EQ(text(), "what was written here");
}

TEST_F(HealTest, WhereTheHandlerStandsInGoesLast) {
  publish(0, "W", "w");
  const auto index = publish(1, "H", "h");
  ledger.stands_in(index);
  EXPECT_EQ(heal(table, Standing::but_stand_ins), 1u);
  EXPECT_EQ(text(), "What was written here");
  EXPECT_EQ(heal(table, Standing::all), 1u);
  EXPECT_EQ(text(), "WHat was written here");
  ledger.stands_in(publish(2, "A", "a"));
  const auto fallen = publish(3, "T", "t");
  ledger.stands_in(fallen);
  ledger.stands_in(fallen, false);
  EXPECT_EQ(heal(table, Standing::but_stand_ins), 1u);
  EXPECT_EQ(text(), "WHaT was written here");
}

TEST_F(HealTest, AnEntryThatMakesNoSenseIsSkipped) {
  const auto index = publish(0, "that", "what");
  at(index).length = 200;
  EXPECT_EQ(heal(table, Standing::all), 0u);
  EXPECT_EQ(text(), "what was written here");
}

}  // namespace
}  // namespace rtrace::mech::patch_table_test
