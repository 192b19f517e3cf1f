#include "rtrace/sink/text_sink.h"

#include <gmock/gmock.h>

#include <csignal>

#include "sink/text_sink_fixture.h"

namespace rtrace::sink::text_sink_test {
namespace {

using namespace testing;  // the records

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

TEST_F(TextSinkTest, AForkChildReturnsOnALineOfItsOwn) {
  TextOptions options;
  options.align = 0;
  options.return_address = true;
  Thread child{200};
  const auto of_child = [&](decode::Record record) {
    record.header.who = {200, 200, 0};
    return record;
  };
  const auto forked = [&] { return a(decode::Forked{200, true, false}); };
  EXPECT_EQ(print({a.enter(f, 1, {number(1)}), forked(), of_child(child.leave(f, 1, number(7).value)),
                   a.leave(f, 1, number(6).value)},
                  options),
            "[0x401001] f(1 <unfinished ...>\n[pid 200] [0x401001] <... f resumed> ) = 7\n"
            "[pid 100] [0x401001] <... f resumed> ) = 6\n");
  EXPECT_EQ(
      print({a.enter(f, 1, {number(1)}), a.enter(g, 2, {}), forked(), a.leave(g, 2, number(5).value),
             of_child(child.abandon(f, 1)), a.leave(f, 1, number(6).value)},
            options),
      "[0x401001] f(1 <unfinished ...>\n[0x401002] g() = 5\n"
      "[pid 200] [0x401001] <... f resumed> <no return ...>\n[pid 100] [0x401001] <... f resumed> ) = 6\n");
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

TEST_F(TextSinkTest, DurationsFollowTheResult) {
  TextOptions options;
  options.duration = true;
  EXPECT_EQ(print({a.enter(f, 1, {}), a.leave(f, 1, number(0).value)}, options),
            "f()                                              = 0 <0.001234>\n");
}

TEST_F(TextSinkTest, TheArgumentsOfACallAreBounded) {
  TextOptions options;
  options.align = 0;
  options.render.max_line = 12;
  EXPECT_EQ(
      print({a.enter(f, 1, {number(12345), number(12345678), number(1)}), a.leave(f, 1, number(7).value)},
            options),
      "f(123..., 123..., 1) = 7\n");
  EXPECT_EQ(
      print({a.enter(f, 1, {number(12)}), a.leave(f, 1, number(7).value, 0, {number(345678901), number(1)})},
            options),
      "f(12, 34567..., 1) = 7\n");
}

TEST_F(TextSinkTest, WhatStandsBeforeAnArgumentDoesNotHideIt) {
  TextOptions options;
  options.align = 0;
  options.render.max_line = 50;
  const auto path = text("/etc/hostname"), huge = text(std::string(1000, 'x'));
  EXPECT_EQ(print({a.enter(f, 1, {huge, path, huge}), a.leave(f, 1, number(7).value)}, options),
            "f(\"xxxxxxxxxxxxxx\"..., \"/etc/hostname\", \"xxxxxxxxxxxxxx\"...) = 7\n");
}

TEST_F(TextSinkTest, WhatAReturnTellsHasItsPartOfTheLine) {
  TextOptions options;
  options.align = 0;
  options.render.max_line = 40;
  auto call = a.enter(f, 1, {text(std::string(1000, 'x'))});
  std::get<decode::CallEntered>(call.body).more_at_return = true;
  EXPECT_EQ(print({call, a.leave(f, 1, number(7).value, 0, {number(345)})}, options),
            "f(\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"..., 345) = 7\n");
  EXPECT_EQ(print({call, a(decode::Exited{0}), a.leave(f, 1, number(7).value, 0, {number(345)})}, options),
            "f(\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"... <unfinished ...>\n"
            "+++ exited (status 0) +++\n"
            "<... f resumed> 345) = 7\n");
}

TEST_F(TextSinkTest, AHugeResultIsBoundedToo) {
  TextOptions options;
  options.render.max_line = 200;
  std::string line = print({a.enter(f, 1, {}), a.leave(f, 1, text(std::string(10000, 'x')).value)}, options);
  EXPECT_LT(line.size(), 300u);
  EXPECT_THAT(line, ::testing::EndsWith("x\"...\n"));
}

TEST_F(TextSinkTest, AReturnOfACallThatWasNeverShownStillIsALine) {
  EXPECT_EQ(print({a.leave(f, 1, number(7).value)}),
            "<... f resumed> )                                = 7\n");
}

}  // namespace
}  // namespace rtrace::sink::text_sink_test
