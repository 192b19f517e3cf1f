#include "rtrace/sink/text_sink.h"

#include <gmock/gmock.h>

#include <csignal>

#include "sink/text_sink_fixture.h"

namespace rtrace::sink::text_prefix_test {
namespace {

using namespace testing;  // the records

class TextPrefixTest : public TextSinkTest {};

TEST_F(TextPrefixTest, ThePidStaysAfterTheSecondTaskIsGone) {
  EXPECT_EQ(print({b(decode::Exited{0}), a.enter(f, 1, {}), a.leave(f, 1, number(0).value)}),
            "+++ exited (status 0) +++\n"
            "[pid 100] f()                                    = 0\n");
}

TEST_F(TextPrefixTest, PidsBeginWithAThreadAForkOrWhenAlwaysWanted) {
  const std::string line = "[pid 100] f()                                    = 0\n";
  EXPECT_EQ(print({a(decode::ThreadStarted{}), a.enter(f, 1, {}), a.leave(f, 1, number(0).value)}), line);
  EXPECT_EQ(print({a(decode::Forked{200}), a.enter(f, 1, {}), a.leave(f, 1, number(0).value)}), line);
  TextOptions always;
  always.pid = PidPrefix::always;
  EXPECT_EQ(print({a.enter(f, 1, {}), a.leave(f, 1, number(0).value)}, always), line);
}

TEST_F(TextPrefixTest, TheReturnAddressStandsBeforeTheIndentAndOnResumedLines) {
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

struct TimeCase {
  TimeStyle style;
  std::string first, second, third;
};

TEST_F(TextPrefixTest, TimesStandInFrontOfEveryLine) {
  const std::vector<TimeCase> rows = {
      {TimeStyle::none, "", "", ""},
      {TimeStyle::clock, "22:13:20 ", "22:13:20 ", "22:13:20 "},
      {TimeStyle::clock_us, "22:13:20.123456 ", "22:13:20.124456 ", "22:13:20.125456 "},
      {TimeStyle::epoch_us, "1700000000.123456 ", "1700000000.124456 ", "1700000000.125456 "},
      {TimeStyle::epoch_ns, "1700000000.123456789 ", "1700000000.124456789 ", "1700000000.125456789 "},
  };
  for (const TimeCase& row : rows) {
    Thread::clock = 0;
    TextOptions options;
    options.time = row.style;
    options.align = 0;
    EXPECT_EQ(print({a.enter(f, 1, {}), a(decode::SignalDelivered{SIGUSR1}), a.leave(f, 1, number(0).value)},
                    options),
              row.first + "f( <unfinished ...>\n" + row.second + "--- SIGUSR1 (User defined signal 1) ---\n" +
                  row.third + "<... f resumed> ) = 0\n");
  }
}

TEST_F(TextPrefixTest, TheClockMovesOnWithTheSecondsAndIsLocal) {
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

TEST_F(TextPrefixTest, RelativeTimeNeverRunsBackwardsAndIsOfPrintedLines) {
  TextOptions options;
  options.relative = true;
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

TEST_F(TextPrefixTest, RelativeTimeStandsInFrontOfTheClock) {
  TextOptions options;
  options.relative = true;
  options.time = TimeStyle::clock;
  EXPECT_EQ(print({a(decode::Exited{0}), a(decode::Exited{1})}, options),
            "  0.000000 22:13:20 +++ exited (status 0) +++\n"
            "  0.001000 22:13:20 +++ exited (status 1) +++\n");
}

TEST_F(TextPrefixTest, AllPrefixesTogetherComeInOrder) {
  TextOptions options;
  options.pid = PidPrefix::always;
  options.return_address = options.duration = true;
  options.indent = 2;
  options.relative = true;
  options.align = 60;
  EXPECT_EQ(print({a.enter(f, 1, {number(1)}, 2), a.leave(f, 1, number(9).value, 2)}, options),
            "[pid 100]   0.000000 [0x401001]     f(1)                   = 9 <0.001234>\n");
}

}  // namespace
}  // namespace rtrace::sink::text_prefix_test
