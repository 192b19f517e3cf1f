#include "rtrace/tracee/run_times.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace rtrace::tracee {
namespace {

TEST(RunTimes, AreTheFirstAndTheThirdNumber) {
  EXPECT_EQ(parse_run_times("123456789 42 7\n"), (RunTimes{123456789, 7}));
  EXPECT_EQ(parse_run_times("18446744073709551615 0 0\n"), (RunTimes{~uint64_t{0}, 0}));
  EXPECT_EQ(parse_run_times("1 2"), std::nullopt);
  EXPECT_EQ(parse_run_times("1 x 3"), std::nullopt);
  EXPECT_EQ(parse_run_times(""), std::nullopt);
}

TEST(RunTimes, OfAThreadGrowWhileItRuns) {
  RunTimesFile file;
  const auto before = file.read(getpid(), gettid());
  if (!before) GTEST_SKIP() << "this kernel keeps no /proc/PID/schedstat";
  // The account of a task that runs is brought up to date at each tick.
  auto after = before;
  while (after && after->ran == before->ran) after = file.read(getpid(), gettid());
  ASSERT_TRUE(after);
  EXPECT_GT(after->ran, before->ran);
  EXPECT_GE(after->slices, before->slices);
}

TEST(RunTimes, OfATaskThatIsNotThereAreNone) {
  RunTimesFile file;
  EXPECT_EQ(file.read(getpid(), 0x7ffffff0), std::nullopt);
  EXPECT_EQ(file.read(getpid(), gettid()), std::nullopt);
}

}  // namespace
}  // namespace rtrace::tracee
