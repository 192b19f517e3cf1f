#include <gtest/gtest.h>

#include "rtrace/mech/breakpoint_site.h"

namespace rtrace::mech::heat_test {
namespace {

// How many of so many meetings, so far apart, found it hot.
unsigned hot_times(unsigned meetings, uint64_t apart) {
  Heat heat;
  unsigned times = 0;
  for (unsigned i = 1; i <= meetings; ++i) times += heat.rises(i * apart);
  return times;
}

TEST(Heat, RisesWhereManyComeInOneWindow) {
  EXPECT_EQ(hot_times(Heat::kHot, 1000), 0u);
  EXPECT_EQ(hot_times(Heat::kHot + 1, 1000), 1u);
  EXPECT_EQ(hot_times(2 * (Heat::kHot + 1), 1000), 2u) << "it is cold again when it was told";
}

TEST(Heat, FewInEachWindowNeverRise) {
  EXPECT_EQ(hot_times(100'000, Heat::kWindow / Heat::kHot + 1), 0u);
}

}  // namespace
}  // namespace rtrace::mech::heat_test
