#include "rtrace/mech/ring_reader.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <random>

namespace rtrace::mech::ring_reader_test {
namespace {

using Kind = Record::Kind;

// A ring that is written to by hand.
class Ring : public testing::Test {
 protected:
  ~Ring() override { munmap(memory_, kSize.layout().size); }

  agent::Slot& slot() { return records.slot(0); }
  uint64_t* word(uint64_t position) {
    return reinterpret_cast<uint64_t*>(const_cast<std::byte*>(records.ring(0).data())) +
           position % kSize.ring_bytes / 8;
  }
  void put(agent::RecordHead head, std::initializer_list<uint64_t> words, uint64_t lost = 0) {
    std::memcpy(word(slot().head), &head, sizeof head);
    *word(slot().head + 8) = 1000;
    *word(slot().head + 16) = lost;
    *word(slot().head + 24) = 0;
    uint64_t at = slot().head + 32;
    for (const uint64_t value : words) {
      *word(at) = value;
      at += 8;
    }
    slot().head += uint64_t{head.words} * 8;
  }
  void put_return(uint64_t call, uint64_t result, uint64_t lost = 0) {
    put({agent::kReturn, agent::kReturnWords, agent::kReturnWords, 1}, {call, result}, lost);
  }
  std::vector<Kind> read() {
    std::vector<Kind> kinds;
    if (!reader.look()) return kinds;
    while (const auto record = reader.next()) kinds.push_back(record->kind);
    reader.release();
    return kinds;
  }

  static constexpr RecorderSize kSize{1, 4, 0, agent::kLeastRing};

 private:
  void* memory_ =
      mmap(nullptr, kSize.layout().size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

 protected:
  SharedRecords records{{static_cast<std::byte*>(memory_), kSize.layout().size}, kSize};
  RingReader reader{records, 0};
};

TEST_F(Ring, ThatNobodyWroteToHasNothing) {
  EXPECT_FALSE(reader.look());
  EXPECT_FALSE(reader.next().has_value());
}

TEST_F(Ring, GivesItsRoomBackWhenItWasRead) {
  for (unsigned round = 0; round < 5000; ++round) {
    put_return(round, round);
    put_return(round, round);
    // The ring's end falls between two records now and then.
    const uint64_t room = kSize.ring_bytes - slot().head % kSize.ring_bytes;
    if (room < 2 * agent::kReturnWords * 8) put({agent::kPadding, 1, static_cast<uint16_t>(room / 8), 0}, {});
    ASSERT_EQ(read(), (std::vector<Kind>{Kind::returned, Kind::returned}));
    ASSERT_EQ(slot().tail, slot().head);
  }
}

TEST_F(Ring, OfAThreadTellsHowMuchIsUnread) {
  // One that is looked for there first.
  uint64_t thread = 0;
  do {
    thread += 64;
    slot().thread = thread;
  } while (records.slot_of_thread(thread) != 0);
  EXPECT_EQ(records.unread(thread), 0u);
  put_return(1, 1);
  put_return(2, 2);
  EXPECT_EQ(records.unread(thread), 2 * agent::kReturnWords * 8);
  EXPECT_EQ(records.unread(thread + 64), 0u);
  read();
  EXPECT_EQ(records.unread(thread), 0u);
}

TEST_F(Ring, SaysWhereSomethingWasLost) {
  put_return(1, 1);
  slot().lost_entries = 5;
  slot().lost_returns = 3;
  put_return(2, 2, 5 | uint64_t{3} << 32);
  ASSERT_TRUE(reader.look());
  EXPECT_EQ(reader.next()->kind, Kind::returned);
  const Record lost = *reader.next();
  EXPECT_EQ(lost.kind, Kind::lost);
  EXPECT_EQ(lost.entries, 5u);
  EXPECT_EQ(lost.returns, 3u);
  EXPECT_EQ(reader.next()->call, 2u);
  EXPECT_FALSE(reader.next().has_value());
  slot().lost_entries = 7;
  EXPECT_TRUE(reader.look());
  EXPECT_EQ(reader.next()->entries, 2u);
  EXPECT_FALSE(reader.look());
}

// Its thread is about to stand, with what the record leaves out.
TEST_F(Ring, KeepsACutRecordWhileItsThreadRuns) {
  using Owner = RingReader::Owner;
  put_return(1, 1);
  put({agent::kReturn, agent::kReturnWords | agent::kCut, agent::kReturnWords, 1}, {2, 2});
  put_return(3, 3);
  ASSERT_TRUE(reader.look());
  EXPECT_EQ(reader.next(Owner::runs)->call, 1u);
  for (unsigned again = 0; again < 2; ++again) {
    EXPECT_FALSE(reader.next(Owner::runs).has_value());
    ASSERT_TRUE(reader.look());
  }
  const Record cut = *reader.next(Owner::stands);
  EXPECT_EQ(cut.call, 2u);
  EXPECT_TRUE(cut.cut);
  const Record whole = *reader.next(Owner::runs);
  EXPECT_EQ(whole.call, 3u);
  EXPECT_FALSE(whole.cut);
}

TEST_F(Ring, OfAThreadThatHasGoneIsReadToItsEnd) {
  put({agent::kReturn, agent::kReturnWords | agent::kCut, agent::kReturnWords, 1}, {2, 2});
  EXPECT_EQ(read(), (std::vector<Kind>{Kind::returned}));
}

TEST_F(Ring, ThatMakesNoSenseIsSkippedAndSaidToBe) {
  const agent::RecordHead bad[] = {
      {0, 6, 6, 0},                                       // no kind
      {9, 6, 6, 0},                                       // none either
      {agent::kReturn, 6, 0, 0},                          // no words
      {agent::kReturn, 6, 5, 0},                          // fewer than fixed
      {agent::kReturn, 2, 6, 0},                          // fewer fixed than any
      {agent::kReturn, 6, 6, 4},                          // no such function
      {agent::kEntry, 20, 30, 0},                         // more fixed than any
      {agent::kReturn, 6, 60000, 0},                      // more than was written
      {agent::kPadding, 1, 5, 0},                         // not at the end
      {agent::kReturn, 6, 7, 0},                          // half a piece
      {agent::kReturn, 6, agent::kMaxRecordWords + 1, 0}  // longer than any
  };
  for (const agent::RecordHead& head : bad) {
    put({agent::kThread, 6, 6, 0}, {1, 0});
    const uint64_t at = slot().head;
    put(head, {0, 0});
    slot().head = at + 128;
    ASSERT_EQ(read(), (std::vector<Kind>{Kind::thread, Kind::broken})) << int{head.kind} << " " << head.words;
    ASSERT_EQ(slot().tail, slot().head);
  }
  put_return(1, 1);
  EXPECT_EQ(read(), std::vector<Kind>{Kind::returned});
}

TEST_F(Ring, WhoseHeadMakesNoSenseIsSkipped) {
  for (const uint64_t head : {uint64_t{1} << 60, uint64_t{3}, ~uint64_t{0}, uint64_t{0}}) {
    slot().head = head;
    for (const Kind kind : read()) ASSERT_EQ(kind, Kind::broken);
  }
  slot().head = (slot().head + 7) & ~uint64_t{7};
  EXPECT_LE(read().size(), 1u);
  put_return(1, 1);
  EXPECT_EQ(read(), std::vector<Kind>{Kind::returned});
}

TEST_F(Ring, OfNoiseEnds) {
  std::mt19937_64 random(6);
  for (unsigned round = 0; round < 300; ++round) {
    for (uint64_t at = 0; at < kSize.ring_bytes; at += 8) *word(at) = random() >> random() % 64;
    slot().head = round % 2 == 0 ? random() : slot().tail + random() % kSize.ring_bytes;
    EXPECT_LE(read().size(), 2 * kSize.ring_bytes / 8);
  }
}

}  // namespace
}  // namespace rtrace::mech::ring_reader_test
