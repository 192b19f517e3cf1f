// Durations and own times of calls: of plain ones, recursions, tail calls, and calls that do not return.
#include <gmock/gmock.h>

#include <vector>

#include "rtrace/event/call_stack.h"

namespace rtrace::event::call_times_test {
namespace {

using testing::ElementsAre;

constexpr ProbeId kF{1}, kG{2}, kH{3};

// Of a frame that returned or died.
struct Times {
  uint64_t call, duration, self;
  bool operator==(const Times&) const = default;
  friend void PrintTo(const Times& times, std::ostream* out) {
    *out << "call " << times.call << ": " << times.duration << ", self " << times.self;
  }
};

class CallTimes : public testing::Test {
 protected:
  static FrameIdentity at(uint64_t sp) { return {{sp}, {0x400}, {}}; }
  static std::vector<Times> times(const std::vector<Frame>& frames) {
    std::vector<Times> all;
    for (const Frame& frame : frames)
      all.push_back({static_cast<uint64_t>(frame.call), frame.duration, frame.self});
    return all;
  }
  void enter(uint64_t now, uint64_t sp, ProbeId probe) {
    dead.clear();
    stack.enter(at(sp), VirtAddr{0x1000}, probe, CallId{++last_call}, {0, now}, dead);
  }
  std::vector<Times> leave(uint64_t now, uint64_t sp) {
    std::vector<Frame> returned;
    dead.clear();
    stack.leave(at(sp), {0, now}, returned, dead);
    return times(returned);
  }

  CallStack stack;
  std::vector<Frame> dead;
  uint64_t last_call = 0;
};

TEST_F(CallTimes, SelfIsTheDurationLessThatOfTheCallsInside) {
  enter(100, 300, kF);
  enter(110, 200, kG);
  enter(115, 100, kH);
  EXPECT_THAT(leave(118, 100), ElementsAre(Times{3, 3, 3}));
  EXPECT_THAT(leave(130, 200), ElementsAre(Times{2, 20, 17}));
  enter(150, 200, kG);
  EXPECT_THAT(leave(155, 200), ElementsAre(Times{4, 5, 5}));
  EXPECT_THAT(leave(200, 300), ElementsAre(Times{1, 100, 75})) << "what the inner ones called is theirs";
}

TEST_F(CallTimes, OwnTimesOfARecursionAddUpToItsOutermostCall) {
  for (uint64_t i = 0; i < 5; ++i) {
    enter(100 + i, 500 - i, kF);
    EXPECT_EQ(stack.top()->recursive, i > 0);
  }
  uint64_t own = 0;
  for (uint64_t i = 5; i-- > 0;) {
    const auto returned = leave(200 - i, 500 - i);
    ASSERT_EQ(returned.size(), 1u);
    EXPECT_EQ(returned[0].duration, 100 - 2 * i);
    own += returned[0].self;
  }
  EXPECT_EQ(own, 100u);
  enter(300, 500, kF);
  EXPECT_FALSE(stack.top()->recursive);
}

TEST_F(CallTimes, ARecursionThroughAnotherFunctionIsOneToo) {
  enter(1, 300, kF);
  enter(2, 200, kG);
  EXPECT_FALSE(stack.top()->recursive);
  enter(3, 100, kF);
  EXPECT_TRUE(stack.top()->recursive);
}

TEST_F(CallTimes, OfAChainOfTailCallsEachHasTheTimeUntilTheNext) {
  enter(50, 200, kH);
  enter(100, 100, kF);
  enter(130, 100, kG);
  EXPECT_THAT(leave(150, 100), ElementsAre(Times{3, 20, 20}, Times{2, 50, 30}));
  EXPECT_THAT(leave(160, 200), ElementsAre(Times{1, 110, 60}));
}

TEST_F(CallTimes, ACallThatIsLeftForGoodEndsWhereThatShows) {
  enter(100, 300, kF);
  enter(120, 200, kG);  // left by longjmp
  enter(150, 250, kH);
  EXPECT_THAT(leave(160, 250), ElementsAre(Times{3, 10, 10}));
  EXPECT_THAT(leave(200, 300), ElementsAre(Times{1, 100, 60})) << "100 less 30 and 10";
  EXPECT_THAT(times(stack.clear({0, 900})), ElementsAre(Times{2, 30, 30}));
}

TEST_F(CallTimes, ACoroutinesOwnTimeEndsWhenItIsLeft) {
  enter(100, 0x5000, kF);
  enter(110, 0x1000, kG);  // on its own stack
  enter(115, 0x0900, kH);  // which yields
  enter(140, 0x4000, kF);  // the scheduler's
  EXPECT_TRUE(stack.top()->recursive);
  EXPECT_THAT(leave(150, 0x4000), ElementsAre(Times{4, 10, 10}));
  EXPECT_THAT(leave(170, 0x0900), ElementsAre(Times{3, 55, 25})) << "until 140";
  EXPECT_THAT(leave(180, 0x1000), ElementsAre(Times{2, 70, 5}));
  EXPECT_THAT(leave(200, 0x5000), ElementsAre(Times{1, 100, 60})) << "100 less 30 and 10";
}

TEST_F(CallTimes, AFrameThatIsEnteredAnewWasUnwound) {
  enter(100, 200, kH);
  enter(110, 100, kF);
  enter(130, 100, kF);
  EXPECT_THAT(times(dead), ElementsAre(Times{2, 20, 20}));
  EXPECT_FALSE(stack.top()->recursive);
  EXPECT_THAT(leave(140, 100), ElementsAre(Times{3, 10, 10}));
  EXPECT_THAT(leave(150, 200), ElementsAre(Times{1, 50, 20}));
}

TEST_F(CallTimes, CallsThatAreOpenAtTheEndHaveTheTimeSoFar) {
  enter(100, 300, kF);
  enter(150, 200, kG);
  EXPECT_THAT(times(stack.clear({0, 170})), ElementsAre(Times{1, 70, 50}, Times{2, 20, 20}));
  enter(200, 300, kF);
  EXPECT_FALSE(stack.top()->recursive);
}

TEST_F(CallTimes, OwnTimesNeverAddUpToMoreThanTheThreadRan) {
  uint64_t now = 1000, own = 0, random = 1;
  std::vector<Frame> returned;
  for (int i = 0; i < 20000; ++i) {
    random = random * 6364136223846793005U + 1442695040888963407U;
    const uint64_t sp = 0x1000 + (random >> 40) % 64;
    now += (random >> 33) % 50;
    returned.clear();
    dead.clear();
    if ((random >> 60) % 2 == 0)
      stack.enter(at(sp), VirtAddr{0x1000}, ProbeId{static_cast<uint32_t>(random >> 50) % 5},
                  CallId{++last_call}, {0, now}, dead);
    else
      stack.leave(at(sp), {0, now}, returned, dead);
    for (const auto* frames : {&returned, &dead})
      for (const Frame& frame : *frames) own += frame.self;
  }
  for (const Frame& frame : stack.clear({0, now})) own += frame.self;
  EXPECT_GT(own, (now - 1000) / 2);
  EXPECT_LE(own, now - 1000);
}

}  // namespace
}  // namespace rtrace::event::call_times_test
