#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <cstring>
#include <vector>

#include "../../../src/agent/bridge.h"
#include "rtrace/agent/abi.h"

namespace rtrace::agent::bridge_test {
namespace {

// A table as the tracer lays it down.
class Table {
 public:
  explicit Table(uint64_t slots) : words_((kTableEntries + slots * sizeof(SiteEntry)) / 8) {
    table()->slots = slots;
  }
  SiteTable* table() { return reinterpret_cast<SiteTable*>(words_.data()); }
  SiteEntry* entries() { return table()->entries; }
  void put(uint64_t site, uint64_t copy) {
    uint64_t slot = site_slot(site, table()->slots);
    while (entries()[slot].site != 0 && entries()[slot].site != site)
      slot = (slot + 1) & (table()->slots - 1);
    entries()[slot] = {site, copy | uint64_t{0x55} << 56};
  }

 private:
  std::vector<uint64_t> words_;
};

uint64_t copy_at(const SiteTable* table, uint64_t site) {
  const SiteEntry* found = find_site(table, site);
  return found != nullptr ? found->copy() : 0;
}

TEST(FindCopy, KnowsEverySiteOfATableThatIsThreeQuartersFull) {
  Table table(1024);
  for (uint64_t i = 1; i <= 768; ++i) table.put(i * 16, i * 64);
  for (uint64_t i = 1; i <= 768; ++i) EXPECT_EQ(copy_at(table.table(), i * 16), i * 64);
}

TEST(FindCopy, IsNothingForWhatNobodyPutThere) {
  Table table(1024);
  for (uint64_t i = 1; i <= 768; ++i) table.put(i * 16, i * 64);
  for (uint64_t i = 1; i <= 768; ++i) EXPECT_EQ(copy_at(table.table(), i * 16 + 1), 0u);
}

TEST(FindCopy, PassesOverRemovedSitesOfAChain) {
  Table table(4);
  table.put(16, 64);
  uint64_t same = 32;
  while (site_slot(same, 4) != site_slot(16, 4)) same += 16;
  table.put(same, 128);
  table.put(16, 0);
  EXPECT_EQ(copy_at(table.table(), 16), 0u);
  EXPECT_EQ(copy_at(table.table(), same), 128u);
}

TEST(FindCopy, EndsInATableWithoutAFreeSlot) {
  Table table(4);
  for (uint64_t i = 1; i <= 4; ++i) table.put(i * 16, i * 64);
  EXPECT_EQ(copy_at(table.table(), 4096), 0u);
}

TEST(FindCopy, SaysWhatCallTheSiteWatches) {
  Table table(4);
  table.put(16, 64 | static_cast<uint64_t>(SignalCall::mask) << SiteEntry::kCallShift);
  table.put(32, 128);
  const SiteEntry* found = find_site(table.table(), 16);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->call(), SignalCall::mask);
  EXPECT_EQ(found->copy(), 64u);
  EXPECT_EQ(found->displaced(), 0x55);
  EXPECT_EQ(find_site(table.table(), 32)->call(), SignalCall::none);
}

TEST(MaskAfter, IsWhatTheCLibraryWouldMakeOfIt) {
  const std::vector<uint64_t> sets = {0, 1, kTrapBit, 0x7fffffff, ~uint64_t{0}};
  sigset_t own, given, after;
  ASSERT_EQ(pthread_sigmask(SIG_BLOCK, nullptr, &own), 0);
  const auto word = [](sigset_t& set) -> uint64_t& { return *reinterpret_cast<uint64_t*>(&set); };
  for (int how : {SIG_BLOCK, SIG_UNBLOCK, SIG_SETMASK}) {
    for (uint64_t set : sets) {
      uint64_t before = 0x123450;
      sigemptyset(&given);
      word(given) = before;
      ASSERT_EQ(pthread_sigmask(SIG_SETMASK, &given, nullptr), 0);
      word(given) = set;
      pthread_sigmask(how, &given, nullptr);
      pthread_sigmask(SIG_SETMASK, &own, &after);
      constexpr uint64_t kNever = bit_of_signal(9) | bit_of_signal(19);  // the kernel's SIGKILL and SIGSTOP
      EXPECT_EQ(word(after) | kNever, mask_after(how, set_for_kernel(how, set), before) | kNever)
          << how << " " << set;
    }
  }
  EXPECT_EQ(mask_after(7, ~uint64_t{0}, 5), 5u);
}

TEST(FindCopy, IsNothingWithoutATable) {
  EXPECT_EQ(copy_at(nullptr, 16), 0u);
  Table none(0);
  EXPECT_EQ(copy_at(none.table(), 16), 0u);
}

TEST(IsCopy, KnowsWhereEachBeginsAndNothingElse) {
  Table table(1024);
  for (uint64_t i = 1; i <= 768; ++i) table.put(i * 16, i * 64);
  for (uint64_t i = 1; i <= 768; ++i) {
    EXPECT_TRUE(is_copy(table.table(), i * 64));
    EXPECT_FALSE(is_copy(table.table(), i * 64 - 1));
  }
  EXPECT_FALSE(is_copy(table.table(), 0));  // what its empty slots hold
  EXPECT_FALSE(is_copy(nullptr, 64));
}

TEST(Blob, SaysWhereItsPartsAre) {
  const auto size = static_cast<uint64_t>(rtrace_blob_end - rtrace_blob_begin);
  ASSERT_GE(size, sizeof(Blob));
  Blob head;
  std::memcpy(&head, rtrace_blob_begin, sizeof head);
  EXPECT_EQ(std::memcmp(head.mapping.magic, kMappingMagic, sizeof kMappingMagic), 0);
  EXPECT_EQ(head.mapping.version, kAbiVersion);
  EXPECT_EQ(head.mapping.kind, kBlobMapping);
  for (uint64_t offset : {head.bridge, head.restorer, head.gadget, head.enter, head.leave,
                          head.appends[0].begin, head.appends[1].begin, head.ask}) {
    EXPECT_GE(offset, sizeof(Blob));
    EXPECT_LT(offset, size);
  }
  // What unwinders know a signal frame by: mov $15, %rax; syscall.
  const unsigned char restorer[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
  EXPECT_EQ(std::memcmp(rtrace_blob_begin + head.restorer, restorer, sizeof restorer), 0);
  for (const auto& part : {head.appends[0], head.appends[1]}) {
    EXPECT_LT(part.begin, part.end);
    EXPECT_LT(part.end, size);
  }
  for (const Blob::Look& look : head.looks) {
    EXPECT_GE(look.begin, sizeof(Blob));
    EXPECT_LT(look.begin, look.end);
    EXPECT_GE(look.fault, look.end);
    EXPECT_LT(look.fault, size);
  }
  EXPECT_EQ(rtrace_blob_begin[head.ask], 0x90);  // nop
  EXPECT_LE(size, kBlobRoom);
  EXPECT_EQ(head.control, 0u);
  EXPECT_EQ(head.table, 0u);
  EXPECT_EQ(head.masked_thread, 0);
}

}  // namespace
}  // namespace rtrace::agent::bridge_test
