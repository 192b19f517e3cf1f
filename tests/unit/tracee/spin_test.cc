#include "rtrace/tracee/spin.h"

#include <gtest/gtest.h>

namespace rtrace::tracee::spin_test {
namespace {

// How many waits pass without it, from one trial that fails to the next.
unsigned waits_between(SpinChoice& choice) {
  unsigned waits = 0;
  choice.gave_up();
  while (!choice.next()) ++waits;
  return waits;
}

TEST(SpinChoice, GoesOnWhileStopsComeInTime) {
  SpinChoice choice;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(choice.next());
    choice.found();
  }
}

TEST(SpinChoice, ThatNeverWorksIsTriedLessAndLess) {
  SpinChoice choice;
  ASSERT_TRUE(choice.next());
  unsigned expected = SpinChoice::kFirstPause;
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(waits_between(choice), expected);
    expected = std::min(expected * 2, SpinChoice::kLongestPause);
  }
}

TEST(SpinChoice, ALongerCallNowAndThenDoesNotEndIt) {
  SpinChoice choice;
  for (int i = 0; i < 100; ++i) {
    for (int k = 0; k < 5; ++k) choice.found();
    choice.gave_up();
    ASSERT_TRUE(choice.next());
  }
}

TEST(SpinChoice, ThatHasWorkedLongIsTriedAgainSoon) {
  SpinChoice choice;
  for (int i = 0; i < 5; ++i) waits_between(choice);
  for (int i = 0; i < 16; ++i) choice.found();
  for (int i = 0; i < 4; ++i) choice.gave_up();
  EXPECT_EQ(waits_between(choice), SpinChoice::kFirstPause);
}

}  // namespace
}  // namespace rtrace::tracee::spin_test
