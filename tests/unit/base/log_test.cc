#include "rtrace/base/log.h"

#include <gmock/gmock.h>

#include "rtrace/base/error.h"

namespace rtrace::log::log_test {
namespace {

class LogTest : public testing::Test {
 protected:
  LogTest() { configure("all:0"); }
  ~LogTest() override { configure("all:0"); }
};

TEST_F(LogTest, TopicsTurnOnOneByOne) {
  configure("mech,elf:2");
  EXPECT_EQ(level(Topic::mech), 1);
  EXPECT_EQ(level(Topic::elf), 2);
  EXPECT_EQ(level(Topic::loader), 0);
}

TEST_F(LogTest, AllSetsEachAndLaterWordsRefine) {
  configure("all:3,sink:0");
  EXPECT_EQ(level(Topic::session), 3);
  EXPECT_EQ(level(Topic::sink), 0);
}

TEST_F(LogTest, LtracesMaskTurnsEverythingOnOrOff) {
  configure("077");
  for (int i = 0; i < static_cast<int>(Topic::kCount); ++i) EXPECT_EQ(level(static_cast<Topic>(i)), 1);
  configure("0");
  EXPECT_EQ(level(Topic::elf), 0);
}

TEST_F(LogTest, AWordThatIsNoTopicIsNamed) {
  for (const char* bad : {"mehc", "", "elf,", "elf:x", "elf:", "elf:10", "Elf", "elf:1:2"}) {
    try {
      configure(bad);
      ADD_FAILURE() << '"' << bad << "\" was taken";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::StartsWith("-D "));
    }
  }
}

TEST_F(LogTest, TheMessageListsTheTopics) {
  EXPECT_THAT([] { configure("elf,mehc"); }, testing::ThrowsMessage<Error>(testing::AllOf(
                                                 testing::HasSubstr("mehc"), testing::HasSubstr("mech"))));
}

TEST_F(LogTest, LinesOfATopicThatIsOffAreNotEvenFormatted) {
  int formatted = 0;
  auto count = [&] { return ++formatted; };
  RTRACE_LOG(sink, 1, "{}", count());
  EXPECT_EQ(formatted, 0);
  set_level(Topic::sink, 1);
  testing::internal::CaptureStderr();
  RTRACE_LOG(sink, 1, "line {}", count());
  RTRACE_LOG(sink, 2, "line {}", count());
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::MatchesRegex("rtrace\\[[0-9]+\\] sink: line 1\n"));
}

}  // namespace
}  // namespace rtrace::log::log_test
