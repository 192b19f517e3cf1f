#include <gmock/gmock.h>

#include <algorithm>
#include <sstream>

#include "sink/summary_fixture.h"

namespace rtrace::sink::histogram_test {
namespace {

using namespace testing;  // the records
using ::testing::HasSubstr;

class HistogramTest : public SummaryTest {
 protected:
  std::string drawn(unsigned width) const { return render_histograms(table, histograms, width); }
};

TEST_F(HistogramTest, IsDrawnInRowsOf125WithBarsToTheTerminalsWidth) {
  const auto slow = call_site("slow"), other = call_site("other");
  calls(slow, 3, 150'000);
  calls(slow, 32, 300'000);
  calls(slow, 1, 1'500'000);
  calls(other, 5, 1000);
  EXPECT_EQ(drawn(60),
            "\n"
            "slow: 36 calls returned\n"
            "  100us - 200us   3 ###\n"
            "  200us - 500us  32 ########################################\n"
            "  500us -   1ms   0\n"
            "    1ms -   2ms   1 #\n"
            "  p50 299us  p95 299us  p99 1.5ms  max 1.5ms\n"
            "\n"
            "never: no call was seen\n");
}

TEST_F(HistogramTest, CallsThatWereKeptFromItAreNoneThatWereNotSeen) {
  EXPECT_THAT(render_histograms(table, {"f"}, 60, "--slower"),
              HasSubstr("f: no call was seen that --slower let through\n"));
}

TEST_F(HistogramTest, NoLineIsWiderThanTheTerminal) {
  const auto slow = call_site("slow");
  for (uint64_t i = 1; i < 2000; ++i) calls(slow, 1, i * i * i);
  for (unsigned width : {80U, 132U, 200U}) {
    std::istringstream lines(drawn(width));
    size_t longest = 0;
    for (std::string line; std::getline(lines, line);) longest = std::max(longest, line.size());
    EXPECT_EQ(longest, width);
  }
}

TEST_F(HistogramTest, EachDurationIsCountedInItsRow) {
  const auto slow = call_site("slow");
  for (uint64_t duration : {uint64_t{1}, uint64_t{7}, uint64_t{3'000}, uint64_t{4'000'000'000}, ~uint64_t{0}})
    calls(slow, 1, duration);
  const std::string text = drawn(80);
  EXPECT_THAT(text, HasSubstr("    1ns -   2ns  1 #"));
  EXPECT_THAT(text, HasSubstr("    5ns -  10ns  1 #"));
  EXPECT_THAT(text, HasSubstr("    2us -   5us  1 #"));
  EXPECT_THAT(text, HasSubstr("     2s -    5s  1 #"));
  EXPECT_THAT(text, HasSubstr("5 calls returned"));
}

TEST_F(HistogramTest, CallsThatDidNotReturnAreSaid) {
  const auto slow = call_site("slow");
  calls(slow, 1, 1000);
  sink.take(thread.enter(slow, 77, {}));
  EXPECT_THAT(drawn(80), HasSubstr("slow: 1 call returned, 1 did not\n"));
}

TEST_F(HistogramTest, AFunctionThatWasCalledAndNeverReturnedHasNone) {
  const auto slow = call_site("slow");
  sink.take(thread.enter(slow, 77, {}));
  EXPECT_THAT(drawn(80), HasSubstr("slow: 0 calls returned, 1 did not\n\nnever"));
}

TEST_F(HistogramTest, FunctionsOfOneNameInTwoObjectsHaveOneEach) {
  decode::ProbeLabel one, other;
  one.name = other.name = "slow";
  one.object = "liba.so", other.object = "libb.so";
  calls(one, 1, 1000);
  calls(other, 2, 1000);
  EXPECT_THAT(drawn(80), HasSubstr("slow@liba.so: 1 call returned\n"));
  EXPECT_THAT(drawn(80), HasSubstr("slow@libb.so: 2 calls returned\n"));
}

TEST_F(HistogramTest, AWantedFunctionHasItsBucketsFromItsFirstCallOn) {
  const auto slow = call_site("slow"), f = call_site("f");
  table.blocks_used = SummaryTable::kBlocks - 1;
  sink.take(thread.enter(slow, 1, {}));
  calls(f, 1, 1000);
  calls(slow, 1, 1010);
  EXPECT_THAT(drawn(80), HasSubstr("  p50 1.0us  p95 1.0us  p99 1.0us  max 1.0us\n"));
  EXPECT_EQ(summary_lines(table)[1].buckets, nullptr);
}

TEST_F(HistogramTest, WithoutBucketsItSaysSo) {
  table.blocks_used = SummaryTable::kBlocks;
  const auto slow = call_site("slow");
  calls(slow, 1, 1000);
  EXPECT_THAT(drawn(80),
              HasSubstr("slow: 1 call returned; durations are not kept: 4096 functions came before it\n"));
}

}  // namespace
}  // namespace rtrace::sink::histogram_test
