#include "../../../src/agent/summaries.h"

#include <gtest/gtest.h>

#include <thread>

#include "../../../src/agent/recorder.h"
#include "../../../src/agent/threads.h"
#include "agent/recorder_memory.h"

namespace rtrace::agent::summaries_test {
namespace {

class Summaries : public testing::Test {
 protected:
  uint64_t call(uint32_t function, uint64_t begin, uint64_t end, uint64_t frame = 0x7000) {
    Kept kept{};
    Slot& slot = *own_slot(memory.control);
    count_entry(memory.control, slot, {function, frame, begin}, kept);
    count_return(memory.control, slot, {function, frame, end}, kept, Outcome::fine);
    return kept.first;
  }
  RecorderMemory memory{Mode::count, {plain_plan(), plain_plan()}, kLeastRing, 4, 8};
  Summary& own(uint32_t function) { return memory.summary(2 + function); }
};

TEST_F(Summaries, AddUpWhatCallsTook) {
  call(0, 1000, 1010);
  call(0, 2000, 2500);
  const Summary& summary = own(0);
  EXPECT_EQ(summary.function, 0u);
  EXPECT_EQ(summary.entered, 2u);
  EXPECT_EQ(summary.total, 510u);
  EXPECT_EQ(summary.inner, 0u);
  EXPECT_EQ(summary.recursive, 0u);
  EXPECT_EQ(summary.greatest, 500u);
  EXPECT_EQ(summary.durations.counts[bucket_of(10)], 1u);
  EXPECT_EQ(summary.durations.counts[bucket_of(500)], 1u);
}

TEST_F(Summaries, TakeCallsInsideOffACallersOwnTime) {
  Slot& slot = *own_slot(memory.control);
  Kept outer{}, inner{};
  count_entry(memory.control, slot, {0, 0x7000, 1000}, outer);
  count_entry(memory.control, slot, {1, 0x6f00, 1100}, inner);
  count_return(memory.control, slot, {1, 0x6f00, 1130}, inner, Outcome::fine);
  count_entry(memory.control, slot, {1, 0x6f00, 1200}, inner);
  count_return(memory.control, slot, {1, 0x6f00, 1250}, inner, Outcome::failed);
  count_return(memory.control, slot, {0, 0x7000, 1300}, outer, Outcome::fine);
  EXPECT_EQ(own(0).total, 300u);
  EXPECT_EQ(own(0).inner, 80u);
  EXPECT_EQ(own(1).total, 80u);
  EXPECT_EQ(own(1).inner, 0u);
  EXPECT_EQ(own(1).errors, 1u);
}

TEST_F(Summaries, CountTheTimeOfRecursiveCallsOnce) {
  Slot& slot = *own_slot(memory.control);
  Kept outer{}, inner{};
  count_entry(memory.control, slot, {0, 0x7000, 1000}, outer);
  count_entry(memory.control, slot, {0, 0x6f00, 1100}, inner);
  count_return(memory.control, slot, {0, 0x6f00, 1150}, inner, Outcome::fine);
  count_return(memory.control, slot, {0, 0x7000, 1300}, outer, Outcome::fine);
  EXPECT_EQ(own(0).total, 350u);
  EXPECT_EQ(own(0).recursive, 50u);
  EXPECT_EQ(own(0).inner, 50u);
}

TEST_F(Summaries, ACallThatWasLeftByALongjmpIsNoCaller) {
  Slot& slot = *own_slot(memory.control);
  Kept lost{};
  count_entry(memory.control, slot, {0, 0x6f00, 1000}, lost);
  call(0, 2000, 2100, 0x7000);
  EXPECT_EQ(own(0).entered, 2u);
  EXPECT_EQ(own(0).total, 100u);
  EXPECT_EQ(own(0).recursive, 0u);
}

TEST_F(Summaries, SubtractTheRecordersShare) {
  memory.control.share_inside = 8;
  memory.control.share_outside = 12;
  Slot& slot = *own_slot(memory.control);
  Kept outer{}, inner{};
  count_entry(memory.control, slot, {0, 0x7000, 1000}, outer);
  count_entry(memory.control, slot, {1, 0x6f00, 1100}, inner);
  count_return(memory.control, slot, {1, 0x6f00, 1150}, inner, Outcome::fine);
  count_return(memory.control, slot, {0, 0x7000, 1300}, outer, Outcome::fine);
  EXPECT_EQ(own(1).total, 42u);
  EXPECT_EQ(own(0).total, 300u - 20 - 8);
  call(1, 2000, 2003);
  EXPECT_EQ(own(1).total, 42u) << "never less than nothing";
}

TEST_F(Summaries, ACallTakesNoLessThanThoseInsideOfIt) {
  memory.control.share_inside = 8;
  memory.control.share_outside = 200;
  Slot& slot = *own_slot(memory.control);
  Kept outer{}, inner{};
  count_entry(memory.control, slot, {0, 0x7000, 1000}, outer);
  for (uint64_t begin = 1010; begin <= 1130; begin += 60) {
    count_entry(memory.control, slot, {1, 0x6f00, begin}, inner);
    count_return(memory.control, slot, {1, 0x6f00, begin + 28}, inner, Outcome::fine);
  }
  count_return(memory.control, slot, {0, 0x7000, 1200}, outer, Outcome::fine);
  EXPECT_EQ(own(1).total, 60u);
  EXPECT_EQ(own(0).total, 60u);
  EXPECT_EQ(own(0).inner, 60u);
}

TEST_F(Summaries, OfThreadsWithoutOneOfTheirOwnAreShared) {
  memory.header().summaries_claimed = 6;
  constexpr unsigned kThreads = 4, kCalls = 20'000;
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < kThreads; ++i)
    threads.emplace_back([&] {
      for (unsigned n = 0; n < kCalls; ++n) call(1, 1000, 1010);
    });
  threads.clear();
  EXPECT_EQ(memory.summary(1).entered, kThreads * kCalls);
  EXPECT_EQ(memory.summary(1).total, kThreads * kCalls * 10u);
  EXPECT_EQ(memory.summary(1).durations.counts[10], kThreads * kCalls);
  EXPECT_EQ(memory.header().summaries_claimed, 6u);
}

TEST_F(Summaries, KnowFailuresByTheResult) {
  memory.plan(0).failure = Failure::minus_one_32;
  memory.plan(1).failure = Failure::null;
  WrapperStack stack;
  const auto one = [&](uint32_t function, uint64_t result) {
    enter(memory.control, stack.frame, function, {});
    stack.frame.returned.result = result;
    leave(memory.control, stack.frame, function);
  };
  one(0, 0xffffffff);
  one(0, ~uint64_t{0});
  one(0, 1);
  one(1, 0);
  one(1, 1);
  EXPECT_EQ(own(0).errors, 2u);
  EXPECT_EQ(own(1).errors, 1u);
}

class FallsSilent : public testing::TestWithParam<Mode> {
 protected:
  RecorderMemory memory{GetParam(), {plain_plan()}, kLeastRing, 4, GetParam() == Mode::count ? 4u : 0u};
  WrapperStack stack;
  uint64_t open() {
    const Slot& slot = *own_slot(memory.control);
    if (GetParam() == Mode::record) return slot.open;
    const Summary& summary = *own_summary(memory.control, slot, 0);
    uint64_t open = summary.entered;
    for (const uint64_t count : summary.durations.counts) open -= count;
    return open;
  }
};

TEST_P(FallsSilent, AndCallsThatHaveBegunEnd) {
  enter(memory.control, stack.frame, 0, {});
  EXPECT_EQ(open(), 1u);
  memory.control.mode = Mode::off;
  leave(memory.control, stack.frame, 0);
  EXPECT_EQ(open(), 0u);
  // Of one that begins now nothing but its wrapper is counted, which is needed until it returns.
  enter(memory.control, stack.frame, 0, {});
  EXPECT_EQ(memory.header().unrecorded, 1u);
  leave(memory.control, stack.frame, 0);
  EXPECT_EQ(memory.header().unrecorded, 0u);
  EXPECT_EQ(open(), 0u);
}

TEST_P(FallsSilent, AndAForkChildDoesNotEndItsParentsCalls) {
  enter(memory.control, stack.frame, 0, {});
  const Control wiped{};
  leave(wiped, stack.frame, 0);
  EXPECT_EQ(open(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Both, FallsSilent, testing::Values(Mode::record, Mode::count));

}  // namespace
}  // namespace rtrace::agent::summaries_test
