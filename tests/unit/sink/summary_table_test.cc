// rtrace's own table.
#include "rtrace/sink/summary_table.h"

#include <gmock/gmock.h>

#include <sstream>

#include "sink/summary_fixture.h"

namespace rtrace::sink::summary_table_test {
namespace {

using namespace testing;  // the records
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> functions(const std::string& table) {
  std::vector<std::string> names;
  std::istringstream lines(table);
  bool body = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("------")) {
      body = !body;
      continue;
    }
    if (body) names.push_back(line.substr(line.rfind(' ') + 1));
  }
  return names;
}

TEST_F(SummaryTest, TheTableHasTheColumnsOfTheManual) {
  const auto outer = call_site("outer"), inner = call_site("inner");
  for (int i = 0; i < 100; ++i) returned(inner, {.duration = 412, .self = 412, .failed = i < 3});
  returned(outer, {.duration = 1'234'567, .self = 1'193'367});
  EXPECT_EQ(own_table(),
            "% time  seconds usecs/call calls errors   p50   p95   p99   max   self function\n"
            "------ -------- ---------- ----- ------ ----- ----- ----- ----- ------ --------------------\n"
            " 96.66 0.001235       1235     1      0 1.2ms 1.2ms 1.2ms 1.2ms  1.2ms outer\n"
            "  3.33 0.000041      0.412   100      3 411ns 411ns 411ns 412ns 41.2us inner\n"
            "------ -------- ---------- ----- ------ ----- ----- ----- ----- ------ --------------------\n"
            "100.00 0.001235              101      3                          1.2ms total\n");
}

TEST_F(SummaryTest, ANarrowTerminalHasTheColumnsThatCountMost) {
  const auto inner = call_site("inner");
  for (int i = 0; i < 100; ++i) returned(inner, {.duration = 412, .self = 412, .failed = i < 3});
  const auto fitted = [&](size_t width) {
    return render_summary(table, SortKey::time, ShareShown::subtracted, width);
  };
  EXPECT_EQ(fitted(200), own_table());
  EXPECT_EQ(fitted(80),
            "% time  seconds calls errors   p50   p95   p99   max   self function\n"
            "------ -------- ----- ------ ----- ----- ----- ----- ------ --------------------\n"
            "100.00 0.000041   100      3 411ns 411ns 411ns 412ns 41.2us inner\n"
            "------ -------- ----- ------ ----- ----- ----- ----- ------ --------------------\n"
            "100.00 0.000041   100      3                         41.2us total\n");
  EXPECT_EQ(fitted(40),
            "% time calls   max function\n"
            "------ ----- ----- --------------------\n"
            "100.00   100 412ns inner\n"
            "------ ----- ----- --------------------\n"
            "100.00   100       total\n");
  for (size_t width : {40u, 50u, 60u, 70u, 80u, 90u})
    for (std::istringstream lines(fitted(width)); lines;) {
      std::string line;
      std::getline(lines, line);
      EXPECT_LE(line.size(), width) << line;
    }
}

TEST_F(SummaryTest, WithoutCallsTheTableIsEmptyButWhole) {
  EXPECT_EQ(own_table(),
            "% time  seconds usecs/call calls errors p50 p95 p99 max self function\n"
            "------ -------- ---------- ----- ------ --- --- --- --- ---- --------------------\n"
            "------ -------- ---------- ----- ------ --- --- --- --- ---- --------------------\n"
            "100.00 0.000000                0      0                  0ns total\n");
}

TEST_F(SummaryTest, TimeOfCallsThatDidNotReturnIsMarked) {
  const auto f = call_site("f"), poll = call_site("poll"), killed = call_site("killed");
  calls(f, 1, 2000);
  sink.take(thread.enter(poll, 50, {}));
  sink.take(thread(decode::CallAbandoned{&poll, event::CallId{50}, 0, 3'000'000, 1'000'000, false, true}));
  sink.take(thread.enter(killed, 51, {}));  // the engine died before it could tell
  const std::string text = own_table();
  EXPECT_THAT(text,
              HasSubstr(" 99.80 0.003000+          -     1      0     -     -     -     - 1.0ms+ poll\n"));
  EXPECT_THAT(text, HasSubstr("  0.19 0.000002       2.000     1      0 2.0us 2.0us 2.0us 2.0us 2.0us  f\n"));
  EXPECT_THAT(text,
              HasSubstr("  0.00 0.000000+          -     1      0     -     -     -     -   0ns+ killed\n"));
}

TEST_F(SummaryTest, ARecursionWithoutAReturnIsTimedOnceToo) {
  const auto f = call_site("f");
  sink.take(thread(decode::CallAbandoned{&f, event::CallId{2}, 1, 700, 700, true, true}));
  sink.take(thread(decode::CallAbandoned{&f, event::CallId{1}, 0, 1000, 300, false, true}));
  EXPECT_EQ(row(0).total_ns(), 1000u);
  EXPECT_EQ(row(0).self_ns, 1000u);
}

TEST_F(SummaryTest, PercentagesNeverAddUpToMoreThanAHundred) {
  std::vector<decode::ProbeLabel> labels;
  for (int i = 0; i < 6; ++i) labels.push_back(call_site(fmt::format("f{}", i)));
  for (const auto& label : labels) calls(label, 1, 1'000'000);  // 16.666% each
  EXPECT_THAT(own_table(), HasSubstr(" 16.66 "));
  EXPECT_THAT(own_table(), Not(HasSubstr(" 16.67 ")));
}

TEST_F(SummaryTest, EachKeySortsByItsColumn) {
  const auto a = call_site("a"), b = call_site("b"), c = call_site("c");
  returned(a, {.duration = 9000, .self = 1000});
  for (int i = 0; i < 5; ++i) returned(b, {.duration = 100, .self = 100});
  for (int i = 0; i < 500; ++i) returned(c, {.duration = 10, .self = 10});
  returned(c, {.duration = 20'000, .self = 2});
  EXPECT_THAT(functions(own_table(SortKey::time)), ElementsAre("c", "a", "b"));
  EXPECT_THAT(functions(own_table(SortKey::self)), ElementsAre("c", "a", "b"));
  EXPECT_THAT(functions(own_table(SortKey::calls)), ElementsAre("c", "b", "a"));
  EXPECT_THAT(functions(own_table(SortKey::max)), ElementsAre("c", "a", "b"));
  EXPECT_THAT(functions(own_table(SortKey::p99)), ElementsAre("a", "b", "c"));
  EXPECT_THAT(functions(own_table(SortKey::name)), ElementsAre("a", "b", "c"));
  returned(b, {.duration = 50'000, .self = 6000});
  EXPECT_THAT(functions(own_table(SortKey::time)), ElementsAre("b", "c", "a"));
  EXPECT_THAT(functions(own_table(SortKey::self)), ElementsAre("b", "c", "a"));
  EXPECT_THAT(functions(own_table(SortKey::max)), ElementsAre("b", "c", "a"));
}

TEST_F(SummaryTest, PercentilesAreOfTheNearestRankWithin3Percent) {
  const auto f = call_site("f");
  for (uint64_t i = 1; i <= 1000; ++i) returned(f, {.duration = i * 1000, .self = i * 1000});
  const agent::Buckets& buckets = *summary_lines(table)[0].buckets;
  uint64_t counted = 0;
  for (uint64_t count : buckets.counts) counted += count;
  EXPECT_EQ(counted, 1000u);
  std::istringstream cells(own_table().substr(own_table().find("100.00")));
  std::string skipped, p50, p95, p99, max;
  cells >> skipped >> skipped >> skipped >> skipped >> skipped >> p50 >> p95 >> p99 >> max;
  EXPECT_NEAR(std::stod(p50), 500, 15);
  EXPECT_NEAR(std::stod(p95), 950, 28.5);
  EXPECT_NEAR(std::stod(p99), 990, 29.7);
  EXPECT_EQ(max, "1.0ms");
}

TEST_F(SummaryTest, NoPercentileIsGreaterThanTheGreatestDuration) {
  const auto f = call_site("f");
  calls(f, 3, 513);  // near the least of its bucket, whose middle is 519
  EXPECT_THAT(own_table(), HasSubstr(" 513ns 513ns 513ns 513ns "));
}

TEST_F(SummaryTest, EachCellHasTheUnitThatFitsIt) {
  struct Case {
    uint64_t duration;
    const char* cell;
  };
  for (const auto& [duration, cell] :
       {Case{0, "0ns"}, Case{999, "999ns"}, Case{1000, "1.0us"}, Case{99'949, "99.9us"},
        Case{99'950, "100us"}, Case{999'499, "999us"}, Case{999'500, "1.0ms"}, Case{1'234'567, "1.2ms"},
        Case{99'950'000, "100ms"}, Case{999'499'999, "999ms"}, Case{999'500'000, "1.00s"},
        Case{12'340'000'000, "12.34s"}, Case{100'000'000'000, "100s"}, Case{86'400'000'000'000, "86400s"}}) {
    const auto f = call_site(fmt::format("f{}", duration));
    calls(f, 1, duration);
    EXPECT_THAT(own_table(), HasSubstr(fmt::format(" {} ", cell))) << duration;
  }
}

TEST_F(SummaryTest, FunctionsWithoutBucketsAreSaid) {
  const auto f = call_site("f"), g = call_site("g"), h = call_site("h");
  table.blocks_used = SummaryTable::kBlocks - 1;
  calls(f, 2, 1010);
  calls(g, 2, 2000);
  calls(h, 2, 3000);
  const std::string text = own_table();
  EXPECT_THAT(text, HasSubstr(" 1.0us 1.0us 1.0us 1.0us  2.0us f\n"));
  EXPECT_THAT(text, HasSubstr("     -     -     - 2.0us  4.0us g\n"));
  EXPECT_THAT(text, EndsWith(" total\np50 to p99 are kept of 4096 functions, and not of 2 more\n"));
}

TEST_F(SummaryTest, TheLastLineSaysWhatRtracesShareIsAndHowSure) {
  calls(call_site("f"), 0, 0);
  table.share = {9'000, 640, 100, 520'000, 0};
  EXPECT_THAT(own_table(), EndsWith("total\nrtrace's own share of a stop, 5.2us on average that it held the "
                                    "thread and at least 9.0us +- 640ns, is subtracted\n"));
  EXPECT_THAT(render_summary(table, SortKey::time, ShareShown::contained),
              EndsWith("total\nrtrace's own share of a stop, 5.2us on average that it held the thread and at "
                       "least 9.0us +- 640ns, is contained\n"));
}

TEST_F(SummaryTest, WhereCallsWereCountedBothWaysEachShareIsSaid) {
  calls(call_site("f"), 0, 0);
  table.share = {9'000, 640, 100, 520'000, 33};
  EXPECT_THAT(own_table(),
              AllOf(HasSubstr("total\nrtrace's own share, at least 33ns a call by trampoline, is "
                              "subtracted\nrtrace's own share of a stop, 5.2us on average"),
                    EndsWith(" is subtracted\n")));
}

TEST_F(SummaryTest, NotesStandBelowTheTableByTheirText) {
  calls(call_site("f"), 0, 0);
  add_note(table, "hot", "f");
  add_note(table, "cold: why", "g");
  add_note(table, "hot", "h");
  add_note(table, "hot", "f");
  add_note(table, "hot", "h");
  EXPECT_THAT(own_table(), EndsWith("total\nhot: f, h\ncold: why: g\n"));
}

TEST_F(SummaryTest, NotesThatFindNoRoomAreCounted) {
  calls(call_site("f"), 0, 0);
  add_note(table, "hot", "f");
  add_note(table, "hot", std::string(SummaryTable::kNotes, 'x'));
  add_note(table, "hot", "h");
  EXPECT_THAT(own_table(), EndsWith("total\nhot: f, h\nand 1 more of these\n"));
}

}  // namespace
}  // namespace rtrace::sink::summary_table_test
