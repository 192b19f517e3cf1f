#include "rtrace/base/error.h"

#include <gmock/gmock.h>

#include <cerrno>
#include <csignal>

namespace rtrace::error_test {
namespace {

TEST(Error, SaysWhatWasBeingDoneAndWhyItFailed) {
  Error error = Error::from_errno(ENOENT, "open {}", "/nowhere");
  EXPECT_STREQ(error.what(), "open /nowhere: No such file or directory");
  EXPECT_EQ(error.error_number(), ENOENT);
}

TEST(Error, TakesErrnoBeforeItsMessageCanChangeIt) {
  auto clobber = [] {
    errno = EIO;
    return "x";
  };
  errno = EPERM;
  EXPECT_STREQ(Error::from_errno(EPERM, "{}", clobber()).what(), "x: Operation not permitted");
}

TEST(Error, OfOurOwnHasNoErrno) {
  Error error = Error::make("{} of {}", 1, 2);
  EXPECT_STREQ(error.what(), "1 of 2");
  EXPECT_EQ(error.error_number(), 0);
}

TEST(CheckDeathTest, ABrokenInvariantAbortsWithItsEvidence) {
  EXPECT_EXIT(CHECK(1 + 1 == 3, "{} is not {}", 2, 3), testing::KilledBySignal(SIGABRT),
              "internal error at .*error_test.cc:[0-9]+: CHECK\\(1 \\+ 1 == 3\\) failed: 2 is not 3");
  CHECK(1 + 1 == 2);
}

}  // namespace
}  // namespace rtrace::error_test
