#include "rtrace/sink/text_sink.h"

#include <gmock/gmock.h>

#include <csignal>
#include <cstdlib>
#include <ctime>

#include "sink/records.h"

namespace rtrace::sink {
namespace {

using namespace testing;  // the records

class TextSinkTest : public ::testing::Test {
 protected:
  TextSinkTest() {
    Thread::clock = 0;
    setenv("TZ", "UTC", 1);
    tzset();
  }

  std::string print(const std::vector<decode::Record>& records, TextOptions options = {}) {
    StringOutput output;
    TextSink sink(output, options);
    for (const auto& record : records) sink.take(record);
    sink.finish();
    return output.text;
  }

  Thread a{100}, b{101};
  const decode::ProbeLabel f = call_site("f"), g = call_site("g"), raise_ = call_site("raise"),
                           exit_ = call_site("exit");
};

TEST_F(TextSinkTest, ACallIsOneLineWithItsResultAtTheColumn) {
  EXPECT_EQ(print({a.enter(f, 1, {number(1), text("hi")}), a.leave(f, 1, number(-1).value)}),
            "f(1, \"hi\")                                       = -1\n");
  EXPECT_EQ(print({a.enter(f, 1, {}), a.leave(f, 1, nothing())}),
            "f()                                              = <void>\n");
}

TEST_F(TextSinkTest, AlignmentCountsFromTheLinesFirstColumnAndNeverGluesTheResult) {
  struct Row {
    unsigned align;
    std::string line;
  };
  const std::vector<Row> rows = {
      {10, "f(123)   = 0\n"}, {9, "f(123)  = 0\n"}, {8, "f(123) = 0\n"},
      {7, "f(123) = 0\n"},    {0, "f(123) = 0\n"},
  };
  for (const Row& row : rows) {
    TextOptions options;
    options.align = row.align;
    EXPECT_EQ(print({a.enter(f, 1, {number(123)}), a.leave(f, 1, number(0).value)}, options), row.line)
        << row.align;
  }
}

TEST_F(TextSinkTest, TheOpenCallIsWrittenWhenItIsEntered) {
  StringOutput output;
  TextSink sink(output, {});
  sink.take(a.enter(f, 1, {number(1), number(2)}));
  EXPECT_EQ(output.text, "f(1, 2");
}

TEST_F(TextSinkTest, EachRecordIsOneWrite) {
  struct Counting : Output {
    void write(std::string_view) override { ++writes; }
    int writes = 0;
  } output;
  TextSink sink(output, {});
  sink.take(a.enter(f, 1, {number(1)}));
  sink.take(b.enter(g, 2, {number(1)}));
  EXPECT_EQ(output.writes, 2);
  sink.take(a(decode::Loaded{"libz.so", 0}));
  EXPECT_EQ(output.writes, 2) << "nothing to print";
  sink.finish();
  EXPECT_EQ(output.writes, 3);
  sink.finish();
  EXPECT_EQ(output.writes, 3);
}

TEST_F(TextSinkTest, ArgumentsReadAtReturnFollowTheOthers) {
  EXPECT_EQ(print({a.enter(f, 1, {number(1)}), a.leave(f, 1, number(0).value, 0, {text("x"), number(3)})}),
            "f(1, \"x\", 3)                                     = 0\n");
  EXPECT_EQ(print({a.enter(f, 1, {}), a.leave(f, 1, number(0).value, 0, {text("x")})}),
            "f(\"x\")                                           = 0\n");
}

TEST_F(TextSinkTest, HiddenArgumentsTakeTheirCommaAlong) {
  EXPECT_EQ(print({a.enter(f, 1, {hidden(), number(1), hidden(), number(2), hidden()}),
                   a.leave(f, 1, number(0).value, 0, {hidden(), number(3)})}),
            "f(1, 2, 3)                                       = 0\n");
}

TEST_F(TextSinkTest, ANestedCallClosesTheLineAndTheOuterOneResumes) {
  auto outer = a.enter(f, 1, {number(1)});
  std::get<decode::CallEntered>(outer.body).more_at_return = true;
  EXPECT_EQ(print({outer, a.enter(g, 2, {number(2)}, 1), a.leave(g, 2, number(3).value, 1),
                   a.leave(f, 1, number(4).value, 0, {number(5), number(6)})}),
            "f(1 <unfinished ...>\n"
            "g(2)                                             = 3\n"
            "<... f resumed> 5, 6)                            = 4\n");
}

TEST_F(TextSinkTest, AResumedCallWithoutFurtherArgumentsKeepsItsParenthesis) {
  EXPECT_EQ(print({a.enter(f, 1, {}), a.enter(g, 2, {}), a.leave(g, 2, nothing()), a.leave(f, 1, nothing())}),
            "f( <unfinished ...>\n"
            "g()                                              = <void>\n"
            "<... f resumed> )                                = <void>\n");
}

TEST_F(TextSinkTest, ARecursiveCallIsNotTakenForTheOuterOne) {
  EXPECT_EQ(print({a.enter(f, 1, {number(1)}), a.enter(f, 2, {number(0)}, 1),
                   a.leave(f, 2, number(7).value, 1), a.leave(f, 1, number(8).value)}),
            "f(1 <unfinished ...>\n"
            "f(0)                                             = 7\n"
            "<... f resumed> )                                = 8\n");
}

TEST_F(TextSinkTest, TwoThreadsInterleaveUnderTheirPids) {
  EXPECT_EQ(print({a.enter(f, 1, {number(1)}), b.enter(g, 2, {number(2)}), a.leave(f, 1, number(3).value),
                   b.leave(g, 2, number(4).value), b.enter(g, 3, {}), b.leave(g, 3, number(5).value)}),
            "f(1 <unfinished ...>\n"
            "[pid 101] g(2 <unfinished ...>\n"
            "[pid 100] <... f resumed> )                      = 3\n"
            "[pid 101] <... g resumed> )                      = 4\n"
            "[pid 101] g()                                    = 5\n");
}

TEST_F(TextSinkTest, ThePidStaysAfterTheSecondTaskIsGone) {
  EXPECT_EQ(print({b(decode::Exited{0}), a.enter(f, 1, {}), a.leave(f, 1, number(0).value)}),
            "+++ exited (status 0) +++\n"
            "[pid 100] f()                                    = 0\n");
}

TEST_F(TextSinkTest, PidsBeginWithAThreadAForkOrWhenAlwaysWanted) {
  const std::string line = "[pid 100] f()                                    = 0\n";
  EXPECT_EQ(print({a(decode::ThreadStarted{}), a.enter(f, 1, {}), a.leave(f, 1, number(0).value)}), line);
  EXPECT_EQ(print({a(decode::Forked{200}), a.enter(f, 1, {}), a.leave(f, 1, number(0).value)}), line);
  TextOptions always;
  always.always_pid = true;
  EXPECT_EQ(print({a.enter(f, 1, {}), a.leave(f, 1, number(0).value)}, always), line);
}

TEST_F(TextSinkTest, WhatPrintsNothingLeavesTheCallOpen) {
  EXPECT_EQ(print({a.enter(f, 1, {}), a(decode::ThreadStarted{}), a(decode::Forked{7}),
                   a(decode::Loaded{"libz.so", 1}), a(decode::Unloaded{"libz.so"}),
                   a.leave(f, 1, number(0).value)}),
            "f()                                              = 0\n");
}

TEST_F(TextSinkTest, ASignalInsideACallLeavesItUnfinished) {
  EXPECT_EQ(print({a.enter(raise_, 1, {number(10)}), a(decode::SignalDelivered{SIGUSR1}),
                   a.leave(raise_, 1, number(0).value)}),
            "raise(10 <unfinished ...>\n"
            "--- SIGUSR1 (User defined signal 1) ---\n"
            "<... raise resumed> )                            = 0\n");
}

TEST_F(TextSinkTest, SignalsCanBeKeptOut) {
  TextOptions options;
  options.signals = false;
  EXPECT_EQ(print({a.enter(raise_, 1, {number(10)}), a(decode::SignalDelivered{SIGUSR1}),
                   a.leave(raise_, 1, number(0).value), a(decode::Killed{SIGTERM, false})},
                  options),
            "raise(10)                                        = 0\n"
            "+++ killed by SIGTERM +++\n");
}

TEST_F(TextSinkTest, SignalsHaveTheirNamesAndWords) {
  const std::pair<int, const char*> rows[] = {
      {SIGABRT, "SIGABRT (Aborted)"},
      {SIGSEGV, "SIGSEGV (Segmentation fault)"},
      {SIGCHLD, "SIGCHLD (Child exited)"},
      {SIGIO, "SIGIO (I/O possible)"},
      {32, "SIG32 (Unknown signal 32)"},
      {SIGRTMIN, "SIGRTMIN (Real-time signal 0)"},
      {SIGRTMIN + 3, "SIGRTMIN+3 (Real-time signal 3)"},
      {SIGRTMAX, "SIGRTMIN+30 (Real-time signal 30)"},
      {65, "SIG65 (Unknown signal 65)"},
  };
  for (const auto& [signal, words] : rows)
    EXPECT_EQ(print({a(decode::SignalDelivered{signal})}), fmt::format("--- {} ---\n", words));
  EXPECT_EQ(print({a(decode::Killed{SIGRTMIN + 1, true})}), "+++ killed by SIGRTMIN+1 +++\n");
}

TEST_F(TextSinkTest, AnExitWithOpenCallsSaysThatTheyDoNotReturn) {
  EXPECT_EQ(print({a.enter(f, 1, {number(1)}), a.enter(exit_, 2, {number(3)}, 1), a.abandon(exit_, 2, 1),
                   a.abandon(f, 1), a(decode::Exited{3})}),
            "f(1 <unfinished ...>\n"
            "exit(3 <no return ...>\n"
            "<... f resumed> <no return ...>\n"
            "+++ exited (status 3) +++\n");
}

TEST_F(TextSinkTest, ExitLinesCanBeKeptOut) {
  TextOptions options;
  options.exits = false;
  EXPECT_EQ(print({a(decode::Exited{3}), a(decode::Killed{9, false})}, options), "");
}

TEST_F(TextSinkTest, AnExecEndsTheCallThatMadeIt) {
  const auto execve = call_site("execve");
  EXPECT_EQ(print({a.enter(execve, 1, {text("/bin/true")}), a.abandon(execve, 1),
                   a(decode::Executed{"/bin/true"}), a(decode::Exited{0})}),
            "execve(\"/bin/true\" <no return ...>\n"
            "--- Called exec() ---\n"
            "+++ exited (status 0) +++\n");
}

TEST_F(TextSinkTest, TheEndOfTheTraceLeavesAnOpenCallUnfinished) {
  EXPECT_EQ(print({a.enter(f, 1, {number(1)})}), "f(1 <unfinished ...>\n");
}

TEST_F(TextSinkTest, AReturnThatCannotBeSeenIsSaidAtOnce) {
  auto call = a.enter(f, 1, {number(1)});
  std::get<decode::CallEntered>(call.body).unseen_return = "the caller is JIT code";
  EXPECT_EQ(print({call, a.enter(g, 2, {}), a.leave(g, 2, number(0).value)}),
            "f(1)                                             = ?\n"
            "g()                                              = 0\n");
}

TEST_F(TextSinkTest, LossesAreLines) {
  EXPECT_EQ(
      print({a.enter(f, 1, {}), a(decode::Lost{17, "output could\nnot keep up"}), a(decode::Lost{1, "x"})}),
      "f( <unfinished ...>\n"
      "--- 17 calls lost: output could\\012not keep up ---\n"
      "--- 1 call lost: x ---\n");
}

TEST_F(TextSinkTest, TheReturnAddressStandsBeforeTheIndentAndOnResumedLines) {
  TextOptions options;
  options.return_address = true;
  options.indent = 3;
  EXPECT_EQ(print({a.enter(f, 1, {}), a.enter(g, 2, {number(2)}, 1), a.leave(g, 2, number(0).value, 1),
                   a.leave(f, 1, number(0).value), a(decode::SignalDelivered{SIGUSR1})},
                  options),
            "[0x401001] f( <unfinished ...>\n"
            "[0x401002]    g(2)                               = 0\n"
            "[0x401001] <... f resumed> )                     = 0\n"
            "--- SIGUSR1 (User defined signal 1) ---\n");
}

TEST_F(TextSinkTest, DurationsFollowTheResult) {
  TextOptions options;
  options.duration = true;
  EXPECT_EQ(print({a.enter(f, 1, {}), a.leave(f, 1, number(0).value)}, options),
            "f()                                              = 0 <0.001234>\n");
}

struct TimeCase {
  TimeStyle style;
  std::string first, second;
};

TEST_F(TextSinkTest, TimesStandInFrontOfEveryLine) {
  const std::vector<TimeCase> rows = {
      {TimeStyle::relative, "  0.000000 ", "  0.001000 "},
      {TimeStyle::clock, "22:13:20 ", "22:13:20 "},
      {TimeStyle::clock_us, "22:13:20.123456 ", "22:13:20.124456 "},
      {TimeStyle::epoch_us, "1700000000.123456 ", "1700000000.124456 "},
      {TimeStyle::epoch_ns, "1700000000.123456789 ", "1700000000.124456789 "},
  };
  for (const TimeCase& row : rows) {
    Thread::clock = 0;
    TextOptions options;
    options.time = row.style;
    options.align = 0;
    EXPECT_EQ(print({a.enter(f, 1, {}), a(decode::SignalDelivered{SIGUSR1}), a.leave(f, 1, number(0).value)},
                    options),
              row.first + "f( <unfinished ...>\n" + row.second + "--- SIGUSR1 (User defined signal 1) ---\n" +
                  (row.style == TimeStyle::relative ? "  0.001000 " : "") +
                  (row.style == TimeStyle::clock ? "22:13:20 " : "") +
                  (row.style == TimeStyle::clock_us ? "22:13:20.125456 " : "") +
                  (row.style == TimeStyle::epoch_us ? "1700000000.125456 " : "") +
                  (row.style == TimeStyle::epoch_ns ? "1700000000.125456789 " : "") +
                  "<... f resumed> ) = 0\n");
  }
}

TEST_F(TextSinkTest, TheClockMovesOnWithTheSecondsAndIsLocal) {
  setenv("TZ", "XYZ-2", 1);  // two hours east
  tzset();
  TextOptions options;
  options.time = TimeStyle::clock;
  auto first = a(decode::SignalDelivered{SIGUSR1});
  Thread::clock = 59'000'000'000;
  auto later = a(decode::SignalDelivered{SIGUSR1});
  EXPECT_EQ(print({first, later}, options),
            "00:13:20 --- SIGUSR1 (User defined signal 1) ---\n"
            "00:14:19 --- SIGUSR1 (User defined signal 1) ---\n");
}

TEST_F(TextSinkTest, RelativeTimeNeverRunsBackwardsAndIsOfPrintedLines) {
  TextOptions options;
  options.time = TimeStyle::relative;
  auto early = a(decode::Exited{0});
  Thread::clock = 123'456'000'000;
  auto late = a(decode::Exited{1});
  auto silent = a(decode::Loaded{"libz.so", 0});
  auto last = a(decode::Exited{2});
  EXPECT_EQ(print({late, early, silent, last}, options),
            "  0.000000 +++ exited (status 1) +++\n"
            "  0.000000 +++ exited (status 0) +++\n"
            "  0.002000 +++ exited (status 2) +++\n");
  EXPECT_EQ(print({early, late}, options),
            "  0.000000 +++ exited (status 0) +++\n"
            "123.456000 +++ exited (status 1) +++\n");
}

TEST_F(TextSinkTest, AllPrefixesTogetherComeInOrder) {
  TextOptions options;
  options.always_pid = options.return_address = options.duration = true;
  options.indent = 2;
  options.time = TimeStyle::relative;
  options.align = 60;
  EXPECT_EQ(print({a.enter(f, 1, {number(1)}, 2), a.leave(f, 1, number(9).value, 2)}, options),
            "[pid 100]   0.000000 [0x401001]     f(1)                   = 9 <0.001234>\n");
}

TEST_F(TextSinkTest, LabelsShowCallerObjectAndClone) {
  decode::ProbeLabel site = call_site("f");
  site.caller = "libfoo.so.1";
  decode::ProbeLabel entry;
  entry.name = "f";
  entry.object = "libbar.so.2";
  decode::ProbeLabel clone;
  clone.name = "gc_start";
  clone.clone = true;
  TextOptions options;
  options.align = 0;
  EXPECT_EQ(print({a.enter(site, 1, {}), a.leave(site, 1, number(0).value), a.enter(entry, 2, {}),
                   a.leave(entry, 2, number(0).value), a.enter(clone, 3, {number(1)}),
                   a.leave(clone, 3, number(0).value)},
                  options),
            "libfoo.so.1->f() = 0\n"
            "f@libbar.so.2() = 0\n"
            "gc_start~(1) = 0\n");
}

TEST_F(TextSinkTest, NamesAreDemangledWhereAsked) {
  const auto function = call_site("_ZN2ns1fEi");
  TextOptions options;
  options.align = 0;
  EXPECT_EQ(print({a.enter(function, 1, {number(1)}), a.leave(function, 1, nothing())}, options),
            "_ZN2ns1fEi(1) = <void>\n");
  options.demangle = true;
  EXPECT_EQ(print({a.enter(function, 1, {number(1)}), a.leave(function, 1, nothing())}, options),
            "ns::f(int)(1) = <void>\n");
}

TEST_F(TextSinkTest, NamesFromFilesCannotDriveTheTerminal) {
  const auto hostile = call_site("a\033[2J\tb\xc2\x9bz\xff");
  const auto umlaut = call_site(
      "gr\xc3\xb6\xc3\x9f"
      "e\xff\xc2\x9b");
  TextOptions options;
  options.align = 0;
  EXPECT_EQ(print({a.enter(hostile, 1, {}), a.leave(hostile, 1, nothing())}, options),
            "a\\033[2J\\011b\\302\\233z\\377() = <void>\n");
  options.render.utf8 = true;
  EXPECT_EQ(print({a.enter(umlaut, 1, {}), a.leave(umlaut, 1, nothing())}, options),
            "gr\xc3\xb6\xc3\x9f"
            "e\\377\\302\\233() = <void>\n");
}

TEST_F(TextSinkTest, ColumnsAreCharactersNotBytes) {
  const auto umlaut = call_site("\xc3\xb6");
  TextOptions options;
  options.align = 10;
  options.render.utf8 = true;
  EXPECT_EQ(print({a.enter(umlaut, 1, {}), a.leave(umlaut, 1, number(0).value)}, options),
            "\xc3\xb6()      = 0\n");
}

TEST_F(TextSinkTest, TheArgumentsOfACallAreBounded) {
  TextOptions options;
  options.align = 0;
  options.render.max_line = 10;
  EXPECT_EQ(
      print({a.enter(f, 1, {number(12345), number(12345678), number(1)}), a.leave(f, 1, number(7).value)},
            options),
      "f(12345, 123...) = 7\n");
  EXPECT_EQ(
      print({a.enter(f, 1, {number(12)}), a.leave(f, 1, number(7).value, 0, {number(345678901), number(1)})},
            options),
      "f(12, 345678...) = 7\n");
  auto outer = a.enter(f, 1, {number(12345678)});
  std::get<decode::CallEntered>(outer.body).more_at_return = true;
  EXPECT_EQ(print({outer, a(decode::Exited{0}), a.leave(f, 1, number(7).value, 0, {number(345)})}, options),
            "f(12345678 <unfinished ...>\n"
            "+++ exited (status 0) +++\n"
            "<... f resumed> 34...) = 7\n");
}

TEST_F(TextSinkTest, AHugeResultIsBoundedToo) {
  TextOptions options;
  options.render.max_line = 200;
  std::string line = print({a.enter(f, 1, {}), a.leave(f, 1, text(std::string(10000, 'x')).value)}, options);
  EXPECT_LT(line.size(), 300u);
  EXPECT_THAT(line, ::testing::EndsWith("x...\n"));
}

TEST_F(TextSinkTest, AReturnOfACallThatWasNeverShownStillIsALine) {
  EXPECT_EQ(print({a.leave(f, 1, number(7).value)}),
            "<... f resumed> )                                = 7\n");
}

}  // namespace
}  // namespace rtrace::sink
