// What the sink counts, and ltrace's table of it.
#include "rtrace/sink/summary_sink.h"

#include <gmock/gmock.h>

#include "rtrace/sink/summary_table.h"
#include "sink/summary_fixture.h"

namespace rtrace::sink::summary_sink_test {
namespace {

using namespace testing;  // the records
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;

TEST_F(SummaryTest, LtracesTableHasLtracesShape) {
  const auto nap = call_site("nap"), raise = call_site("raise"), puts = call_site("puts");
  calls(puts, 1, 515'000);
  calls(raise, 2, 709'500);
  calls(nap, 1, 1'470'000);
  EXPECT_EQ(render_ltrace_summary(table),
            "% time     seconds  usecs/call     calls      function\n"
            "------ ----------- ----------- --------- --------------------\n"
            " 43.18    0.001470        1470         1 nap\n"
            " 41.69    0.001419         709         2 raise\n"
            " 15.13    0.000515         515         1 puts\n"
            "------ ----------- ----------- --------- --------------------\n"
            "100.00    0.003404                     4 total\n");
}

TEST_F(SummaryTest, WithoutCallsLtracesTableIsEmptyButWhole) {
  EXPECT_EQ(render_ltrace_summary(table),
            "% time     seconds  usecs/call     calls      function\n"
            "------ ----------- ----------- --------- --------------------\n"
            "------ ----------- ----------- --------- --------------------\n"
            "100.00    0.000000                     0 total\n");
}

TEST_F(SummaryTest, WhatAForkChildReturnsFromIsItsParentsCall) {
  const auto f = call_site("f");
  calls(f, 1, 2000);
  for (const bool returns : {true, false}) {
    auto entry = thread.enter(f, 1, {});
    std::get<decode::CallEntered>(entry.body).inherited = true;
    sink.take(entry);
    auto record = returns ? thread.leave(f, 1, {}) : thread.abandon(f, 1);
    if (auto* returned = std::get_if<decode::CallReturned>(&record.body)) returned->inherited = true;
    if (auto* abandoned = std::get_if<decode::CallAbandoned>(&record.body)) abandoned->inherited = true;
    sink.take(record);
  }
  const SummaryLine line = summary_lines(table).at(0);
  EXPECT_EQ(line.numbers.calls, 1U);
  EXPECT_EQ(line.numbers.returned, 1U);
  EXPECT_EQ(line.numbers.unreturned, 0U);
  EXPECT_EQ(line.numbers.total_ns(), 2000U);
}

TEST_F(SummaryTest, InLtracesTableCallsThatNeverReturnCountButTakeNoTime) {
  const auto exit = call_site("exit"), f = call_site("f");
  calls(f, 3, 2000);
  sink.take(thread.enter(f, 50, {}));
  sink.take(thread.enter(exit, 51, {}));
  sink.take(thread.abandon(exit, 51));
  EXPECT_THAT(render_ltrace_summary(table), HasSubstr("100.00    0.000006           2         4 f\n"
                                                      "  0.00    0.000000           0         1 exit\n"));
}

TEST_F(SummaryTest, InLtracesTableShortCallsAddUpBelowTheMicrosecond) {
  const auto f = call_site("f");
  calls(f, 10000, 300);
  EXPECT_THAT(render_ltrace_summary(table), HasSubstr("100.00    0.003000           0     10000 f\n"));
}

TEST_F(SummaryTest, FunctionsOfOneNameInTwoObjectsStayApart) {
  decode::ProbeLabel one, other;
  one.name = other.name = "f";
  one.object = "liba.so", other.object = "libb.so";
  calls(one, 1, 2000);
  calls(other, 2, 500);
  EXPECT_THAT(render_ltrace_summary(table), AllOf(HasSubstr(" 1 f@liba.so\n"), HasSubstr(" 2 f@libb.so\n")));
}

TEST_F(SummaryTest, CallSitesOfOneNameInTwoObjectsAreShownWithTheirObjects) {
  auto one = call_site("f"), other = call_site("f"), lonely = call_site("g");
  one.defined_in = "liba.so", other.defined_in = "libb.so", lonely.defined_in = "libb.so";
  calls(one, 1, 2000);
  calls(other, 2, 500);
  calls(lonely, 3, 100);
  std::vector<std::string> names;
  for (const SummaryLine& line : summary_lines(table)) names.push_back(line.name);
  EXPECT_THAT(names, ::testing::ElementsAre("f@liba.so", "f@libb.so", "g"));
}

TEST_F(SummaryTest, AnObjectThatIsLoadedAgainKeepsItsRows) {
  decode::ProbeLabel first, again;
  first.name = again.name = "f";
  first.object = again.object = "libplugin.so";
  calls(first, 2, 1000);
  calls(again, 3, 1000);
  EXPECT_EQ(table.used, 1u);
  EXPECT_EQ(row(0).calls, 5u);
  EXPECT_EQ(row(0).returned, 5u);
  EXPECT_EQ(row(0).all_ns, 5000u);
}

TEST_F(SummaryTest, NamesAreDemangledWhereAskedAndWholeWhereThereIsRoom) {
  SummarySink demangling(table, true);
  const auto function = call_site("_ZN2ns1fEi"), giant = call_site(std::string(5000, 'x')),
             longer = call_site("quite_a_long_name");
  demangling.take(thread.enter(function, 1, {}));
  demangling.take(thread.enter(giant, 2, {}));
  table.names_size = SummaryTable::kNames - 64 * 10;
  demangling.take(thread.enter(longer, 3, {}));
  table.names_size = SummaryTable::kNames;
  const auto none = call_site("none");
  demangling.take(thread.enter(none, 4, {}));
  const auto lines = summary_lines(table);
  EXPECT_EQ(lines.at(0).name, "ns::f(int)");
  EXPECT_EQ(lines.at(1).name, std::string(5000, 'x'));
  EXPECT_EQ(lines.at(2).name, "quite_a...");
  EXPECT_EQ(lines.at(3).name, "");
  table.rows[0].name = {SummaryTable::kNames, 1};
  EXPECT_EQ(summary_lines(table).at(0).name, "");
}

TEST_F(SummaryTest, CallsWithoutARowAreCountedAndShown) {
  table.used = SummaryTable::kRows - 1;
  const auto f = call_site("f"), g = call_site("g");
  calls(f, 2, 1000);
  calls(g, 3, 1000);
  EXPECT_EQ(table.overflowed, 3u);
  EXPECT_EQ(table.used, SummaryTable::kRows);
  const std::string text = render_ltrace_summary(table);
  EXPECT_THAT(text, HasSubstr("100.00    0.000002           1         2 f\n"));
  EXPECT_THAT(text, HasSubstr("  0.00    0.000000           0         3 (others)\n"));
  EXPECT_THAT(text, EndsWith("100.00    0.000002                     5 total\n"));
}

TEST_F(SummaryTest, ATableCutByTheEnginesDeathIsStillReadable) {
  const auto f = call_site("f");
  calls(f, 1, 1000);
  table.used = uint64_t{1} << 40;  // as if memory had been torn
  table.rows[0].block = uint64_t{1} << 40;
  EXPECT_THAT(render_ltrace_summary(table), EndsWith("100.00    0.000001                     1 total\n"));
  EXPECT_THAT(own_table(), HasSubstr("100.00 0.000001      1.000     1      0   -   -   - 1.0us 1.0us f\n"));
}

TEST_F(SummaryTest, ARowThatIsBeingChangedWhenTheEngineDiesIsAsItWasBefore) {
  const auto f = call_site("f");
  calls(f, 1, 1000);
  CallNumbers& next = table.rows[0].numbers[(table.rows[0].version + 1) % 2];
  next.calls = 77;
  next.all_ns = 1;
  EXPECT_EQ(summary_lines(table)[0].numbers.calls, 1u);
  EXPECT_EQ(summary_lines(table)[0].numbers.all_ns, 1000u);
  calls(f, 1, 1000);
  EXPECT_EQ(summary_lines(table)[0].numbers.calls, 2u);
  EXPECT_EQ(summary_lines(table)[0].numbers.all_ns, 2000u);
}

TEST_F(SummaryTest, AFunctionWithinItselfIsTimedOnce) {
  const auto f = call_site("f");
  returned(f, {.duration = 300, .self = 100, .recursive = true});
  returned(f, {.duration = 600, .self = 300, .recursive = true});
  returned(f, {.duration = 1000, .self = 400});
  EXPECT_EQ(row(0).outermost_ns, 1000u);
  EXPECT_EQ(row(0).self_ns, 800u);
  EXPECT_EQ(row(0).all_ns, 1900u);
  EXPECT_EQ(row(0).max_ns, 1000u);
}

TEST_F(SummaryTest, CallsThatWereCountedElsewhereAddToTheOthers) {
  const auto outer = call_site("outer");
  returned(outer, {.duration = 100, .self = 100});
  decode::CallsCounted counted;
  counted.label = &outer;
  counted.calls = 11;
  counted.returned = 10;
  counted.errors = 2;
  counted.total = 5000;
  counted.outermost = 4000;
  counted.self = 3000;
  counted.greatest = 900;
  counted.durations.resize(agent::kBuckets);
  counted.durations[agent::bucket_of(500)] = 10;
  sink.take(thread(counted));
  EXPECT_EQ(row(0).calls, 12u);
  EXPECT_EQ(row(0).returned, 11u);
  EXPECT_TRUE(row(0).open_ended());
  EXPECT_EQ(row(0).errors, 2u);
  EXPECT_EQ(row(0).total_ns(), 4100u);
  EXPECT_EQ(row(0).self_ns, 3100u);
  EXPECT_EQ(row(0).max_ns, 900u);
  EXPECT_EQ(table.blocks[table.rows[0].block - 1].counts[agent::bucket_of(500)], 10u);
  EXPECT_EQ(table.blocks[table.rows[0].block - 1].counts[agent::bucket_of(100)], 1u);
}

TEST_F(SummaryTest, ErrorsAreCountedWhetherOrNotTheirNumberIsKnown) {
  const auto f = call_site("f");
  returned(f, {.error = 2});
  returned(f, {.failed = true});
  returned(f, {.error = 2, .failed = true});
  returned(f, {});
  EXPECT_EQ(row(0).errors, 3u);
}

TEST_F(SummaryTest, AnInstantIsNoCallWithoutAReturn) {
  decode::ProbeLabel moment;
  moment.name = "ruby:gc__mark__begin";
  moment.instant = true;
  sink.take(thread.enter(moment, 1, {}));
  EXPECT_EQ(row(0).calls, 1u);
  EXPECT_FALSE(row(0).open_ended());
  decode::ProbeLabel unseen;
  unseen.name = "f";
  decode::CallEntered call;
  call.label = &unseen;
  call.unseen_return = "JIT code";
  sink.take(thread(std::move(call)));
  EXPECT_TRUE(row(1).open_ended());
}

TEST_F(SummaryTest, AFunctionIsNamedInEachOfTheWaysInWhichItIsShown) {
  auto label = call_site("_ZN2ns1fEi");
  label.caller = "main";
  label.defined_in = "libns.so";
  for (const char* name : {"_ZN2ns1fEi", "ns::f(int)", "main->_ZN2ns1fEi", "_ZN2ns1fEi@libns.so"})
    EXPECT_TRUE(is_named(label, name)) << name;
  for (const char* name : {"f", "ns::f", "_ZN2ns1fEi@libother.so", ""})
    EXPECT_FALSE(is_named(label, name)) << name;
}

}  // namespace
}  // namespace rtrace::sink::summary_sink_test
