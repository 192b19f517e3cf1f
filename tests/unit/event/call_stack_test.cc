#include "rtrace/event/call_stack.h"

#include <gmock/gmock.h>

#include <ctime>
#include <initializer_list>
#include <vector>

namespace rtrace::event::call_stack_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr VirtAddr kF{0x1000}, kG{0x2000}, kH{0x3000};

FrameIdentity identity(uint64_t sp, uint64_t return_address = 0x400, uint64_t rbx = 0) {
  return {{sp}, {return_address}, {rbx, 0, 0, 0, 0, 0}};
}

// One probe for each site.
ProbeId probe_at(VirtAddr site) {
  return ProbeId{static_cast<uint32_t>(site.value)};
}

std::vector<uint64_t> calls(const std::vector<Frame>& frames) {
  std::vector<uint64_t> ids;
  for (const Frame& frame : frames) ids.push_back(static_cast<uint64_t>(frame.call));
  return ids;
}

// Numbers the calls from 1 in the order of their entry, and keeps what the last step reported.
class CallStackTest : public testing::Test {
 protected:
  uint64_t enter(const FrameIdentity& at, VirtAddr site = kF, const CallerWords& above = {}) {
    dead.clear();
    auto call = CallId{++last_call};
    stack.enter(at, site, probe_at(site), call, Timestamp{now, now}, dead, above);
    return last_call;
  }
  std::vector<uint64_t> leave(const FrameIdentity& at, const CallerWords& above = {}) {
    dead.clear();
    std::vector<Frame> returned;
    stack.leave(at, {now, now}, returned, dead, above);
    return calls(returned);
  }

  std::vector<uint64_t> leave_call(const FrameIdentity& at, uint64_t call) {
    dead.clear();
    std::vector<Frame> returned;
    const bool known = stack.leave_call(at, CallId{call}, {now, now}, returned, dead);
    EXPECT_EQ(known, !returned.empty());
    return calls(returned);
  }

  // Of the call that returns.
  uint64_t duration_of(const FrameIdentity& at) {
    dead.clear();
    std::vector<Frame> returned;
    stack.leave(at, {now, now}, returned, dead);
    return returned.empty() ? ~uint64_t{0} : returned.front().duration;
  }

  CallStack stack;
  std::vector<Frame> dead;
  uint64_t last_call = 0;
  uint64_t now = 0;
};

TEST_F(CallStackTest, EntryKeepsWhatItIsGiven) {
  Frame& frame = stack.enter(identity(100), kG, ProbeId{3}, CallId{9}, {11, 12}, dead);
  EXPECT_EQ(frame.identity, identity(100));
  EXPECT_EQ(frame.site, kG);
  EXPECT_EQ(frame.probe, ProbeId{3});
  EXPECT_EQ(frame.call, CallId{9});
  EXPECT_EQ(frame.entered.monotonic, 12u);
  EXPECT_EQ(frame.depth, 0u);
  EXPECT_FALSE(frame.chained);
  EXPECT_FALSE(frame.left);
  EXPECT_EQ(stack.top(), &frame);
}

TEST_F(CallStackTest, NestedCallsReturnInnermostFirst) {
  enter(identity(300));
  enter(identity(200), kG);
  enter(identity(100), kH);
  EXPECT_EQ(stack.depth(), 3u);
  EXPECT_EQ(stack.top()->depth, 2u);
  EXPECT_THAT(leave(identity(100)), ElementsAre(3));
  EXPECT_THAT(leave(identity(200)), ElementsAre(2));
  EXPECT_THAT(leave(identity(300)), ElementsAre(1));
  EXPECT_EQ(stack.size(), 0u);
  EXPECT_EQ(stack.top(), nullptr);
}

TEST_F(CallStackTest, AFrameWithoutRegistersIsLeftWhateverTheyAre) {
  const FrameIdentity other = identity(100, 0x400, 7);
  enter(identity(200));
  enter(identity(100).without_registers(), kG);
  EXPECT_EQ(stack.as_entered(other), identity(100).without_registers());
  EXPECT_EQ(stack.as_entered(identity(100, 0x500, 7)), identity(100, 0x500, 7)) << "another place";
  EXPECT_THAT(leave(stack.as_entered(other)), ElementsAre(2));
  EXPECT_EQ(stack.as_entered(other), other);
}

TEST_F(CallStackTest, AFrameWithRegistersGoesBeforeOneWithout) {
  const FrameIdentity with = identity(100, 0x400, 7);
  enter(with.without_registers());
  enter(with, kG);
  EXPECT_EQ(stack.as_entered(with), with);
}

TEST_F(CallStackTest, CallsInSuccessionFromOnePlaceAreNotMistakenForUnwoundOnes) {
  for (int i = 0; i < 3; ++i) {
    uint64_t call = enter(identity(100));
    EXPECT_THAT(dead, IsEmpty());
    EXPECT_THAT(leave(identity(100)), ElementsAre(call));
  }
}

TEST_F(CallStackTest, RecursionOf100000IsPairedInLinearTime) {
  constexpr uint64_t kDeep = 100000;
  auto run = [&](uint64_t deep) {
    std::clock_t start = std::clock();  // processor time: others may use the machine
    for (uint64_t i = 0; i < deep; ++i) enter(identity(0x7fff0000 - 48 * i));
    for (uint64_t i = deep; i-- > 0;) EXPECT_EQ(leave(identity(0x7fff0000 - 48 * i)).size(), 1u);
    return std::clock() - start + 1;
  };
  run(kDeep);  // the memory is there from here on
  auto small = run(kDeep / 20), large = run(kDeep);
  EXPECT_EQ(stack.size(), 0u);
  // 20 times the calls: linear is a factor of 20, quadratic one of 400.
  EXPECT_LT(large, 200 * small);
}

TEST_F(CallStackTest, OneReturnEndsAChainOfTailCallsNewestFirst) {
  enter(identity(200));
  enter(identity(100), kF);
  enter(identity(100), kG);
  EXPECT_TRUE(stack.top()->chained);
  EXPECT_THAT(dead, IsEmpty());
  EXPECT_THAT(leave(identity(100)), ElementsAre(3, 2));
  enter(identity(100), kF);
  enter(identity(100), kG);
  enter(identity(100), kH);
  EXPECT_EQ(stack.top()->depth, 3u);
  EXPECT_THAT(leave(identity(100)), ElementsAre(6, 5, 4));
  EXPECT_THAT(leave(identity(200)), ElementsAre(1));
}

TEST_F(CallStackTest, CallsInsideATailCalledFunctionNest) {
  enter(identity(100), kF);
  enter(identity(100), kG);
  enter(identity(50), kH);
  EXPECT_FALSE(stack.top()->chained);
  EXPECT_THAT(leave(identity(50)), ElementsAre(3));
  EXPECT_THAT(leave(identity(100)), ElementsAre(2, 1));
}

TEST_F(CallStackTest, EachFrameOfALongjmpLoopIsReportedDead) {
  enter(identity(200), kH);
  enter(identity(100));
  for (uint64_t i = 0; i < 10000; ++i) {
    uint64_t call = enter(identity(100));
    ASSERT_THAT(calls(dead), ElementsAre(call - 1));
    ASSERT_EQ(stack.size(), 2u);
    ASSERT_EQ(stack.top()->depth, 1u);
    ASSERT_FALSE(stack.top()->chained);
  }
  EXPECT_THAT(leave(identity(100)), ElementsAre(last_call));
}

TEST_F(CallStackTest, FramesBelowALongjmpAreReportedDeadWhenTheyAreEnteredAgain) {
  for (uint64_t i = 0; i < 1000; ++i) {
    uint64_t outer = enter(identity(200));
    EXPECT_EQ(dead.size(), i > 0 ? 1u : 0u);
    enter(identity(100), kG);
    EXPECT_EQ(dead.size(), i > 0 ? 1u : 0u);
    EXPECT_EQ(last_call, outer + 1);
    EXPECT_EQ(stack.size(), 2u);
  }
}

TEST_F(CallStackTest, AnEntryThatRestartsAChainKillsItFromThatFrameOn) {
  enter(identity(100), kF);
  enter(identity(100), kG);
  enter(identity(100), kH);
  enter(identity(100), kG);
  EXPECT_THAT(calls(dead), ElementsAre(2, 3));
  EXPECT_TRUE(stack.top()->chained);
  EXPECT_THAT(leave(identity(100)), ElementsAre(4, 1));
}

TEST_F(CallStackTest, ALeftChainDiesWholeWhenItsIdentityIsEnteredAgain) {
  enter(identity(100), kF);
  enter(identity(100), kG);
  enter(identity(200), kH);
  EXPECT_EQ(stack.depth(), 1u);
  enter(identity(100), kF);
  EXPECT_THAT(calls(dead), ElementsAre(1, 2));
  EXPECT_THAT(leave(identity(100)), ElementsAre(4));
}

TEST_F(CallStackTest, ALeftChainReturnsWhole) {
  enter(identity(100), kF);
  enter(identity(100), kG);
  enter(identity(200), kH);
  EXPECT_THAT(leave(identity(100)), ElementsAre(2, 1));
  EXPECT_EQ(stack.size(), 1u);
}

struct StackCase {
  const char* name;
  uint64_t other;  // where the coroutines' stacks begin
};
class OtherStack : public CallStackTest, public testing::WithParamInterface<StackCase> {};

TEST_P(OtherStack, CoroutinesResumedOutOfOrderAllReturn) {
  const uint64_t kMain = 0x5000, other = GetParam().other;
  uint64_t in_main = enter(identity(kMain));
  std::vector<uint64_t> inside;
  for (uint64_t i = 0; i < 8; ++i) inside.push_back(enter(identity(other + i * 0x100, 0x500), kG));
  for (uint64_t i : std::initializer_list<uint64_t>{5, 0, 7, 2, 1, 6, 4, 3}) {
    // The scheduler on the main stack runs traced calls in between.
    uint64_t between = enter(identity(kMain - 0x40, 0x600), kH);
    EXPECT_THAT(dead, IsEmpty());
    EXPECT_THAT(leave(identity(kMain - 0x40, 0x600)), ElementsAre(between));
    EXPECT_THAT(leave(identity(other + i * 0x100, 0x500)), ElementsAre(inside[i]));
  }
  EXPECT_THAT(leave(identity(kMain)), ElementsAre(in_main));
  EXPECT_EQ(stack.size(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Addresses, OtherStack,
                         testing::Values(StackCase{"lower", 0x1000}, StackCase{"higher", 0x9000}),
                         [](const auto& row) { return std::string(row.param.name); });

TEST_F(CallStackTest, GreenletsWithOneStackPointerAreToldApartBySavedRegisters) {
  enter(identity(100, 0x400, 1));
  enter(identity(100, 0x400, 2));
  EXPECT_THAT(dead, IsEmpty());
  EXPECT_EQ(stack.depth(), 1u) << "the second has taken the first one's slot";
  EXPECT_THAT(leave(identity(100, 0x400, 1)), ElementsAre(1));
  EXPECT_THAT(leave(identity(100, 0x400, 2)), ElementsAre(2));
}

TEST_F(CallStackTest, ThousandsOfGreenletsOnOneSliceCostNoSearch) {
  constexpr uint64_t kMany = 50000;
  for (uint64_t i = 0; i < kMany; ++i) enter(identity(100, 0x400, i));
  for (uint64_t i = 0; i < kMany; ++i) ASSERT_THAT(leave(identity(100, 0x400, i)), ElementsAre(i + 1));
  EXPECT_EQ(stack.size(), 0u);
}

// Above the frame of greenlet `number`; `written` is what a callee may have changed there.
CallerWords slice(uint64_t number, uint64_t written = 0) {
  return {{7, number, number + 1, 8, 9, 10, 11, written}};
}

TEST_F(CallStackTest, GreenletsAlikeInAllRegistersAreToldApartByTheContentsOfTheirStacks) {
  for (uint64_t i = 1; i <= 3; ++i) {
    enter(identity(100), kF, slice(i));
    EXPECT_THAT(dead, IsEmpty());
    EXPECT_EQ(stack.depth(), 1u);
  }
  EXPECT_TRUE(stack.alike(identity(100)));
  EXPECT_THAT(leave(identity(100), slice(2, 55)), ElementsAre(2)) << "though something was written there";
  EXPECT_THAT(leave(identity(100), slice(3)), ElementsAre(3));
  EXPECT_THAT(leave(identity(100), slice(1)), ElementsAre(1));
  EXPECT_FALSE(stack.alike(identity(100)));
  EXPECT_EQ(stack.size(), 0u);
}

TEST_F(CallStackTest, OfFramesThatNothingTellsApartTheNewestReturns) {
  enter(identity(100), kF, slice(1));
  enter(identity(100), kF, slice(2));
  EXPECT_THAT(leave(identity(100), slice(9)), ElementsAre(2));
  EXPECT_THAT(leave(identity(100), slice(9)), ElementsAre(1));
}

TEST_F(CallStackTest, TheOneWithTheSameStackDiesWhenItsIdentityIsEnteredAgain) {
  enter(identity(100), kF, slice(1));
  enter(identity(100), kF, slice(2));
  enter(identity(100), kF, slice(1));
  EXPECT_THAT(calls(dead), ElementsAre(1));
  EXPECT_THAT(leave(identity(100), slice(2)), ElementsAre(2));
  EXPECT_THAT(leave(identity(100), slice(1)), ElementsAre(3));
}

TEST_F(CallStackTest, ChainsOnMovedSlicesReturnWhole) {
  for (uint64_t i = 1; i <= 2; ++i) {
    enter(identity(100), kF, slice(i));
    enter(identity(100), kG, slice(i, 5));
    EXPECT_TRUE(stack.top()->chained);
  }
  EXPECT_THAT(leave(identity(100), slice(1)), ElementsAre(2, 1));
  EXPECT_THAT(leave(identity(100), slice(2)), ElementsAre(4, 3));
}

TEST_F(CallStackTest, ALoopThatUnwindsAndChangesItsLocalsKeepsNoMoreThanTheLimit) {
  for (uint64_t i = 1; i <= CallStack::kMaxAlike + 1; ++i) {
    enter(identity(100), kF, slice(i));
    EXPECT_THAT(dead, IsEmpty());
  }
  enter(identity(100), kF, slice(0));
  EXPECT_THAT(calls(dead), ElementsAre(1));
  EXPECT_EQ(stack.size(), CallStack::kMaxAlike + 1);
}

TEST(CallerWords, DifferInThePartInWhichAByteDiffers) {
  std::vector<std::byte> bytes(CallerWords::kBytes, std::byte{3});
  const CallerWords all = CallerWords::of(bytes);
  bytes[440] = std::byte{4};
  EXPECT_NE(CallerWords::of(bytes), all);
  EXPECT_EQ(CallerWords::of(bytes).equal_parts(all), all.parts.size() - 1);
  EXPECT_EQ(CallerWords::of(std::span{bytes}.first(256)).equal_parts(all), 2u)
      << "what could not be read differs";
  EXPECT_EQ(CallerWords::of({}), CallerWords{});
}

TEST_F(CallStackTest, AReturnSiteReachedByAnUntracedCallEndsNothing) {
  EXPECT_THAT(leave(identity(100)), IsEmpty());
  enter(identity(200));
  EXPECT_THAT(leave(identity(100)), IsEmpty());
  EXPECT_THAT(leave(identity(200, 0x444)), IsEmpty()) << "another return address";
  EXPECT_EQ(stack.size(), 1u);
}

TEST_F(CallStackTest, AnExceptionTakesFramesOutOfDepthAtTheNextEventAbove) {
  enter(identity(400));
  enter(identity(300), kG);
  enter(identity(200), kH);
  enter(identity(350), kG);
  EXPECT_EQ(stack.depth(), 2u);
  EXPECT_EQ(stack.top()->depth, 1u);
  EXPECT_EQ(stack.size(), 4u);
  EXPECT_THAT(dead, IsEmpty()) << "they may still return";
  EXPECT_THAT(leave(identity(400)), ElementsAre(1));
  EXPECT_EQ(stack.depth(), 0u);
}

TEST_F(CallStackTest, UnwindToKeepsTheFrameAtThatStackPointer) {
  enter(identity(300));
  enter(identity(200), kG);
  stack.unwind_to({200}, {}, dead);
  EXPECT_EQ(stack.depth(), 2u);
  stack.unwind_to({201}, {}, dead);
  EXPECT_EQ(stack.depth(), 1u);
  EXPECT_EQ(stack.size(), 2u);
  EXPECT_THAT(dead, IsEmpty());
  EXPECT_THAT(leave(identity(200)), ElementsAre(2));
}

TEST_F(CallStackTest, LeftFramesOverTheLimitDieOldestFirst) {
  constexpr uint64_t kOver = 3;
  for (uint64_t i = 0; i < CallStack::kMaxLeft + kOver; ++i) enter(identity(0x7fff0000 - 16 * i));
  stack.unwind_to({0x7fff0001}, {}, dead);
  EXPECT_THAT(calls(dead), ElementsAre(1, 2, 3));
  EXPECT_EQ(stack.size(), CallStack::kMaxLeft);
  EXPECT_EQ(stack.depth(), 0u);
  EXPECT_THAT(leave(identity(0x7fff0000)), IsEmpty());
  EXPECT_THAT(leave(identity(0x7fff0000 - 16 * kOver)), ElementsAre(kOver + 1));
}

TEST_F(CallStackTest, AChainAtTheLimitIsForgottenWhole) {
  enter(identity(0x7fff0000), kF);
  enter(identity(0x7fff0000), kG);
  for (uint64_t i = 1; i < CallStack::kMaxLeft; ++i) enter(identity(0x7fff0000 - 16 * i));
  stack.unwind_to({0x7fff0001}, {}, dead);
  EXPECT_THAT(calls(dead), ElementsAre(1, 2));
  EXPECT_THAT(leave(identity(0x7fff0000)), IsEmpty());
}

TEST_F(CallStackTest, ClearGivesAllFramesOldestFirst) {
  enter(identity(100), kF);
  enter(identity(100), kG);
  enter(identity(300));
  enter(identity(250));
  leave(identity(250));
  enter(identity(200));
  enter(identity(50, 0x900));
  stack.unwind_to({60}, {}, dead);
  EXPECT_THAT(calls(stack.clear({})), ElementsAre(1, 2, 3, 5, 6));
  EXPECT_EQ(stack.size(), 0u);
  EXPECT_THAT(stack.clear({}), IsEmpty());
  EXPECT_THAT(leave(identity(100)), IsEmpty());
}

TEST_F(CallStackTest, ACopyLivesAfterTheFirstIsGone) {
  enter(identity(300));
  enter(identity(100));
  enter(identity(50));
  stack.unwind_to({200}, {}, dead);
  CallStack copy;
  {
    CallStack first = stack;
    copy = first;
    first.clear({});
  }
  std::vector<Frame> returned;
  copy.leave(identity(100), {}, returned, dead);
  copy.leave(identity(50), {}, returned, dead);
  copy.leave(identity(300), {}, returned, dead);
  EXPECT_THAT(calls(returned), ElementsAre(2, 3, 1));
  EXPECT_EQ(copy.size(), 0u);
  EXPECT_THAT(leave(identity(100)), ElementsAre(2));
}

TEST_F(CallStackTest, ACopyKnowsWhichProbesAreActive) {
  enter(identity(100));
  CallStack copy = stack;
  EXPECT_TRUE(copy.enter(identity(50), kF, probe_at(kF), CallId{7}, {}, dead).recursive);
  std::vector<Frame> returned;
  copy.leave(identity(50), {}, returned, dead);
  copy.leave(identity(100), {}, returned, dead);
  EXPECT_FALSE(copy.enter(identity(100), kF, probe_at(kF), CallId{8}, {}, dead).recursive);
}

TEST_F(CallStackTest, ACallThatIsNamedReturnsWithoutItsChain) {
  enter(identity(100), kF);
  enter(identity(100), kG);
  EXPECT_THAT(leave_call(identity(100), 2), ElementsAre(2));
  EXPECT_EQ(stack.depth(), 1u);
  EXPECT_THAT(leave(identity(100)), ElementsAre(1));
}

TEST_F(CallStackTest, WhatBeganInsideOfANamedCallIsLeft) {
  enter(identity(100), kF);
  enter(identity(50), kG);
  EXPECT_THAT(leave_call(identity(100), 1), ElementsAre(1));
  EXPECT_EQ(stack.depth(), 0u);
  EXPECT_THAT(leave_call(identity(50), 2), ElementsAre(2));
  EXPECT_THAT(leave_call(identity(50), 2), IsEmpty());
  EXPECT_EQ(stack.size(), 0u);
}

TEST_F(CallStackTest, ANamedCallThatWasLeftReturnsWithoutItsChain) {
  enter(identity(50), kF);
  enter(identity(50), kG);
  enter(identity(200), kH);  // on another stack
  EXPECT_THAT(leave_call(identity(50), 2), ElementsAre(2));
  EXPECT_THAT(leave_call(identity(50), 2), IsEmpty());
  EXPECT_THAT(leave_call(identity(50), 1), ElementsAre(1));
  EXPECT_THAT(leave_call(identity(200), 3), ElementsAre(3));
}

TEST_F(CallStackTest, OfLeftFramesThoseAreOverlaidInWhosePlaceAnotherHasBegun) {
  enter(identity(50), kF);                    // 1, left by an exception
  enter(identity(90), kG);                    // 2
  enter(identity(50), kF, CallerWords{{1}});  // 3, in the place of 1
  enter(identity(80), kG);                    // 4, which leaves 3
  std::vector<std::pair<int, bool>> left;
  stack.for_each_left(
      [&](const Frame& frame, bool overlaid) { left.emplace_back(static_cast<int>(frame.call), overlaid); });
  EXPECT_THAT(left, ElementsAre(std::pair(1, true), std::pair(3, false)));
}

TEST_F(CallStackTest, AChainIsNotOverlaidByItself) {
  enter(identity(50), kF);                    // 1
  enter(identity(90), kG);                    // 2
  enter(identity(50), kF, CallerWords{{1}});  // 3
  enter(identity(50), kG, CallerWords{{1}});  // 4, a tail call
  enter(identity(80), kH);                    // 5
  std::vector<uint64_t> overlaid;
  stack.for_each_left([&](const Frame& frame, bool is) {
    if (is) overlaid.push_back(static_cast<uint64_t>(frame.call));
  });
  EXPECT_THAT(overlaid, ElementsAre(1));
}

TEST_F(CallStackTest, LeftCallsAreBuriedByTheirNames) {
  enter(identity(50), kF);
  enter(identity(40), kG);
  enter(identity(90), kH);
  stack.bury_left({CallId{2}, CallId{3}}, dead);
  ASSERT_EQ(dead.size(), 1u);
  EXPECT_EQ(dead[0].call, CallId{2});
  EXPECT_EQ(stack.left(), 1u);
  EXPECT_THAT(leave(identity(50)), ElementsAre(1));
}

TEST_F(CallStackTest, AStackIsSwitchedWhereALeftFrameReturns) {
  enter(identity(50), kF);
  enter(identity(90), kG);
  EXPECT_FALSE(stack.resumes());
  leave(identity(50));
  EXPECT_TRUE(stack.resumes());
}

TEST(FrameIdentity, OfAReturnEqualsThatOfItsEntry) {
  arch::Regs regs;
  regs.raw.rsp = 0x7ffe1000;
  regs.raw.rbx = 1, regs.raw.rbp = 2, regs.raw.r12 = 3, regs.raw.r13 = 4, regs.raw.r14 = 5, regs.raw.r15 = 6;
  FrameIdentity entry = FrameIdentity::at_entry(regs, {0x401234});
  EXPECT_EQ(entry.saved, (std::array<uint64_t, 6>{1, 2, 3, 4, 5, 6}));
  regs.raw.rsp += 8;
  regs.raw.rax = 77, regs.raw.rdi = 78;
  EXPECT_EQ(FrameIdentity::at_return(regs, {0x401234}), entry);
  regs.raw.r15 = 7;
  EXPECT_NE(FrameIdentity::at_return(regs, {0x401234}), entry);
}

}  // namespace
}  // namespace rtrace::event::call_stack_test
