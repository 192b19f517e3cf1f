#include "rtrace/sink/summary_sink.h"

#include <gmock/gmock.h>

#include "sink/records.h"

namespace rtrace::sink {
namespace {

using namespace testing;  // the records

class SummaryTest : public ::testing::Test {
 protected:
  void calls(const decode::ProbeLabel& label, uint64_t count, uint64_t each_ns) {
    for (uint64_t i = 0; i < count; ++i) {
      sink.take(thread.enter(label, ++last, {}));
      sink.take(thread(decode::CallReturned{&label, event::CallId{last}, 0, each_ns, {}, nothing()}));
    }
  }

  std::unique_ptr<SummaryTable> table = std::make_unique<SummaryTable>();
  SummarySink sink{*table, false};
  Thread thread{100};
  uint64_t last = 0;
};

TEST_F(SummaryTest, TheTableHasLtracesShape) {
  const auto nap = call_site("nap"), raise = call_site("raise"), puts = call_site("puts");
  calls(puts, 1, 515'000);
  calls(raise, 2, 709'500);
  calls(nap, 1, 1'470'000);
  EXPECT_EQ(render_summary(*table),
            "% time     seconds  usecs/call     calls      function\n"
            "------ ----------- ----------- --------- --------------------\n"
            " 43.18    0.001470        1470         1 nap\n"
            " 41.69    0.001419         709         2 raise\n"
            " 15.13    0.000515         515         1 puts\n"
            "------ ----------- ----------- --------- --------------------\n"
            "100.00    0.003404                     4 total\n");
}

TEST_F(SummaryTest, WithoutCallsTheTableIsEmptyButWhole) {
  EXPECT_EQ(render_summary(*table),
            "% time     seconds  usecs/call     calls      function\n"
            "------ ----------- ----------- --------- --------------------\n"
            "------ ----------- ----------- --------- --------------------\n"
            "100.00    0.000000                     0 total\n");
}

TEST_F(SummaryTest, CallsThatNeverReturnCountButTakeNoTime) {
  const auto exit = call_site("exit"), f = call_site("f");
  calls(f, 3, 2000);
  sink.take(thread.enter(f, 50, {}));
  sink.take(thread.enter(exit, 51, {}));
  sink.take(thread.abandon(exit, 51));
  EXPECT_THAT(render_summary(*table),
              ::testing::HasSubstr("100.00    0.000006           2         4 f\n"
                                   "  0.00    0.000000           0         1 exit\n"));
}

TEST_F(SummaryTest, ShortCallsAddUpBelowTheMicrosecond) {
  const auto f = call_site("f");
  calls(f, 10000, 300);
  EXPECT_THAT(render_summary(*table), ::testing::HasSubstr("100.00    0.003000           0     10000 f\n"));
}

TEST_F(SummaryTest, FunctionsOfOneNameInTwoObjectsStayApart) {
  decode::ProbeLabel one, other;
  one.name = other.name = "f";
  one.object = "liba.so", other.object = "libb.so";
  calls(one, 1, 2000);
  calls(other, 2, 500);
  EXPECT_THAT(render_summary(*table), ::testing::AllOf(::testing::HasSubstr(" 1 f@liba.so\n"),
                                                       ::testing::HasSubstr(" 2 f@libb.so\n")));
}

TEST_F(SummaryTest, AnObjectThatIsLoadedAgainKeepsItsRows) {
  decode::ProbeLabel first, again;
  first.name = again.name = "f";
  first.object = again.object = "libplugin.so";
  calls(first, 2, 1000);
  calls(again, 3, 1000);
  EXPECT_EQ(table->used, 1u);
  EXPECT_EQ(table->rows[0].calls, 5u);
  EXPECT_EQ(table->rows[0].returned, 5u);
  EXPECT_EQ(table->rows[0].total_ns, 5000u);
}

TEST_F(SummaryTest, NamesAreDemangledWhereAskedAndCutToTheRow) {
  SummarySink demangling(*table, true);
  const auto function = call_site("_ZN2ns1fEi"), giant = call_site(std::string(1000, 'x'));
  demangling.take(thread.enter(function, 1, {}));
  demangling.take(thread.enter(giant, 2, {}));
  EXPECT_STREQ(table->rows[0].name, "ns::f(int)");
  EXPECT_EQ(std::string(table->rows[1].name), std::string(191, 'x'));
}

TEST_F(SummaryTest, CallsWithoutARowAreCountedAndShown) {
  table->used = SummaryTable::kRows - 1;
  const auto f = call_site("f"), g = call_site("g");
  calls(f, 2, 1000);
  calls(g, 3, 1000);
  EXPECT_EQ(table->overflowed, 3u);
  EXPECT_EQ(table->used, SummaryTable::kRows);
  std::string text = render_summary(*table);
  EXPECT_THAT(text, ::testing::HasSubstr("100.00    0.000002           1         2 f\n"));
  EXPECT_THAT(text, ::testing::HasSubstr("  0.00    0.000000           0         3 (others)\n"));
  EXPECT_THAT(text, ::testing::EndsWith("100.00    0.000002                     5 total\n"));
}

TEST_F(SummaryTest, ATableCutByTheEnginesDeathIsStillReadable) {
  const auto f = call_site("f");
  calls(f, 1, 1000);
  table->used = uint64_t{1} << 40;  // as if memory had been torn
  EXPECT_THAT(render_summary(*table),
              ::testing::EndsWith("100.00    0.000001                     1 total\n"));
}

}  // namespace
}  // namespace rtrace::sink
