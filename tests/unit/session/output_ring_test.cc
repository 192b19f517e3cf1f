#include "rtrace/session/output_ring.h"

#include <gmock/gmock.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <functional>
#include <random>
#include <thread>
#include <utility>

#include "rtrace/base/mapping.h"
#include "rtrace/base/unique_fd.h"

namespace rtrace::session::output_ring_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

constexpr size_t kMiB = size_t{1} << 20;

// Of this thread.
long times_slept() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;
}

class OutputRingTest : public testing::Test {
 protected:
  OutputRing& ring() { return *reinterpret_cast<OutputRing*>(memory.data()); }
  // Keeps what it is given; neighbours of one channel become one.
  bool keep(Channel channel, std::string_view bytes) {
    if (taken.empty() || taken.back().first != channel) taken.emplace_back(channel, "");
    taken.back().second += bytes;
    return true;
  }
  RingReader::Write keeping() {
    return [this](Channel channel, std::string_view bytes) { return keep(channel, bytes); };
  }
  // Serves what the ring holds now.
  void serve(RingReader& reader) {
    reader.stop();
    reader.run();
  }
  void fill(RingWriter& writer) {
    const std::string frame(kMiB, 'f');
    for (size_t i = 0; i + 1 < OutputRing::kCapacity / kMiB; ++i) writer.write(frame);
    ASSERT_EQ(writer.take_dropped(), 0u);
    ASSERT_LT(OutputRing::kCapacity - (ring().head - ring().tail), kMiB + 100 * sizeof(uint32_t));
  }

  Mapping memory = Mapping::shared(sizeof(OutputRing));
  UniqueFd event{eventfd(0, EFD_CLOEXEC)};
  std::vector<std::pair<Channel, std::string>> taken;
};

TEST_F(OutputRingTest, ChannelsKeepTheOrderInWhichTheyWereWritten) {
  RingWriter writer(ring(), event.get(), OnFull::block, getppid());
  writer.notice("attached\n");
  writer.write("a(");
  writer.write(") = 1\n");
  writer.notice("lost\n");
  writer.write("b()\n");
  writer.ready();
  writer.write("");
  writer.write("c()\n");
  RingReader reader(ring(), event.get(), keeping());
  serve(reader);
  EXPECT_THAT(taken, ElementsAre(Pair(Channel::notice, "attached\n"), Pair(Channel::output, "a() = 1\n"),
                                 Pair(Channel::notice, "lost\n"), Pair(Channel::output, "b()\n"),
                                 Pair(Channel::ready, "\n"), Pair(Channel::output, "c()\n")));
}

TEST_F(OutputRingTest, ATraceThatIsReadInTimeStaysInAFewPages) {
  RingWriter writer(ring(), event.get(), OnFull::block, getppid());
  size_t bytes = 0;
  RingReader reader(ring(), event.get(), [&](Channel, std::string_view batch) {
    bytes += batch.size();
    return true;
  });
  const std::string frame(300'000, 'f');
  for (int i = 0; i < 300; ++i) {
    writer.write(frame);
    serve(reader);
  }
  EXPECT_EQ(bytes, 300 * frame.size());
  const std::string_view rest(ring().bytes, sizeof ring().bytes - 4 * kMiB);
  EXPECT_EQ(rest.find_first_not_of('\0'), std::string_view::npos);
}

// The reader takes what there was before the last frames, as one does that runs beside the writer.
TEST_F(OutputRingTest, AReaderThatIsAlwaysALittleBehindKeepsTheRingInAFewPagesToo) {
  RingWriter writer(ring(), event.get(), OnFull::block, getppid());
  size_t received = 0, sent = 0, wrong = 0;
  std::function<void()> while_reading = [] {};
  RingReader reader(ring(), event.get(), [&](Channel, std::string_view batch) {
    for (char byte : batch) wrong += byte != static_cast<char>('a' + received++ % 23);
    std::exchange(while_reading, [] {})();
    return true;
  });
  const auto write_some = [&] {
    for (int frame = 0; frame < 10; ++frame) {
      std::string bytes;
      for (int i = 0; i < 3000; ++i) bytes += static_cast<char>('a' + sent++ % 23);
      writer.write(bytes);
    }
  };
  write_some();
  for (int i = 0; i < 500; ++i) {
    while_reading = write_some;
    ASSERT_TRUE(reader.drain());
  }
  EXPECT_EQ(wrong, 0u);
  const std::string_view rest(ring().bytes, sizeof ring().bytes - kMiB / 2);
  EXPECT_EQ(rest.find_first_not_of('\0'), std::string_view::npos);
}

// However the free room lies.
TEST_F(OutputRingTest, AReaderThatStallsLeavesAllOfTheRingToBeFilled) {
  RingWriter writer(ring(), event.get(), OnFull::drop, getppid());
  const std::string frame(100'000, 'f');
  std::function<void()> while_reading = [&] { writer.write(frame); };
  size_t received = 0;
  RingReader reader(ring(), event.get(), [&](Channel, std::string_view batch) {
    received += batch.size();
    std::exchange(while_reading, [] {})();
    return true;
  });
  for (int i = 0; i < 3; ++i) writer.write(frame);
  ASSERT_TRUE(reader.drain());
  size_t sent = 4;
  for (; writer.take_dropped() == 0; ++sent) writer.write(frame);
  --sent;
  EXPECT_GT(sent * frame.size(), OutputRing::kCapacity - kMiB);
  serve(reader);
  EXPECT_EQ(received, sent * frame.size());
}

TEST_F(OutputRingTest, WhateverTheReaderIsBehindItGetsWhatWasWritten) {
  constexpr size_t kPeriod = 23, kMostBytes = 200'000;
  std::string pattern;
  while (pattern.size() < kMostBytes + kPeriod) pattern += static_cast<char>('a' + pattern.size() % kPeriod);
  RingWriter writer(ring(), event.get(), OnFull::drop, getppid());
  std::mt19937 engine{1};
  const auto below = [&](size_t limit) { return engine() % limit; };
  size_t received = 0, sent = 0, wrong = 0;
  const auto write_some = [&] {
    // Now and then so much that only all of the ring holds it.
    const size_t most = below(20) == 0 ? OutputRing::kCapacity : kMiB / 2;
    for (size_t left = 1 + below(most); left > 0 && sent - received < OutputRing::kCapacity - kMiB;) {
      const size_t size = std::min(left, 1 + below(kMostBytes));
      writer.write(std::string_view(pattern).substr(sent % kPeriod, size));
      left -= size;
      sent += size;
    }
  };
  RingReader reader(ring(), event.get(), [&](Channel, std::string_view batch) {
    wrong += batch != std::string_view(pattern).substr(received % kPeriod, batch.size());
    received += batch.size();
    if (below(8) == 0) write_some();
    return true;
  });
  for (int i = 0; i < 300; ++i) {
    write_some();
    (void)reader.drain();
  }
  serve(reader);
  EXPECT_EQ(writer.take_dropped(), 0u);
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(received, sent);
}

TEST_F(OutputRingTest, AWriterThatCanWaitIsAskedToWhileTheReaderIsBehindAndMoves) {
  RingWriter writer(ring(), event.get(), OnFull::block_a_while, getppid()),
      dropping(ring(), event.get(), OnFull::drop, getppid());
  EXPECT_FALSE(writer.should_ease());
  writer.write(std::string(kMiB, 'x'));
  EXPECT_FALSE(dropping.should_ease());
  EXPECT_TRUE(writer.should_ease());
  int eased = 1;
  while (writer.should_ease()) ++eased;
  EXPECT_GT(eased, 1000) << "a reader that does not move for a second is not waited for";
  RingReader reader(ring(), event.get(), keeping());
  serve(reader);
  EXPECT_FALSE(writer.should_ease());
  writer.write(std::string(kMiB, 'x'));
  EXPECT_TRUE(writer.should_ease());
}

TEST_F(OutputRingTest, FramesOfOneChannelInARowGoOutTogether) {
  RingWriter writer(ring(), event.get(), OnFull::block, getppid());
  size_t writes = 0, bytes = 0;
  for (int i = 0; i < 1000; ++i) writer.write("a line\n");
  RingReader reader(ring(), event.get(), [&](Channel, std::string_view batch) {
    ++writes;
    bytes += batch.size();
    return true;
  });
  serve(reader);
  EXPECT_EQ(bytes, 7000u);
  EXPECT_EQ(writes, 1u);
}

// What stands in a stream from a place on, so that a byte out of place is seen: at most `size` bytes, and at
// least one.
std::string_view stretch(size_t position, size_t size) {
  constexpr size_t kPeriod = 23 * 3 * 4096;
  static const std::string kStream = [] {
    std::string stream;
    for (size_t at = 0; at < kPeriod; ++at) stream += static_cast<char>('a' + at % 23 + at / 4096 % 3);
    return stream;
  }();
  return std::string_view(kStream).substr(position % kPeriod, size);
}

TEST_F(OutputRingTest, ManyTimesItsSizePassThroughUnchangedWhileTheReaderKeepsUpOrNot) {
  constexpr size_t kTotal = 2 * OutputRing::kCapacity + 12345;
  size_t received = 0, wrong = 0;
  RingReader reader(ring(), event.get(), [&](Channel channel, std::string_view bytes) {
    wrong += channel != Channel::output;
    while (!bytes.empty()) {
      const std::string_view expected = stretch(received, bytes.size());
      wrong += !bytes.starts_with(expected);
      received += expected.size();
      bytes.remove_prefix(expected.size());
    }
    return true;
  });
  std::thread front_end([&] { reader.run(); });
  RingWriter writer(ring(), event.get(), OnFull::block, getppid());
  for (size_t sent = 0, size = 1; sent < kTotal; size = size * 7 % 99991 + 1) {
    const std::string_view frame = stretch(sent, std::min(size, kTotal - sent));
    writer.write(frame);
    sent += frame.size();
  }
  reader.stop();
  front_end.join();
  EXPECT_EQ(received, kTotal);
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(writer.take_dropped(), 0u);
}

TEST_F(OutputRingTest, AReaderThatSleepsIsWokenByTheFirstFrame) {
  std::atomic<size_t> received = 0;
  RingReader reader(ring(), event.get(), [&](Channel, std::string_view bytes) {
    received += bytes.size();
    return true;
  });
  std::thread front_end([&] { reader.run(); });
  RingWriter writer(ring(), event.get(), OnFull::block, getppid());
  for (size_t i = 1; i <= 3; ++i) {
    while (ring().reader_waits == 0) std::this_thread::yield();
    writer.write("x");
    while (received != i) std::this_thread::yield();
  }
  reader.stop();
  front_end.join();
}

TEST_F(OutputRingTest, WhatWasWrittenBeforeTheStopIsStillServed) {
  RingWriter writer(ring(), event.get(), OnFull::block, getppid());
  for (int i = 0; i < 100; ++i) writer.write(std::string(10'000, 'x'));
  RingReader reader(ring(), event.get(), keeping());
  serve(reader);
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_EQ(taken[0].second.size(), 1'000'000u);
  EXPECT_EQ(ring().head, ring().tail);
}

TEST_F(OutputRingTest, AnEmptyRingStopsAtOnce) {
  RingReader reader(ring(), event.get(), keeping());
  serve(reader);
  EXPECT_THAT(taken, IsEmpty());
}

TEST_F(OutputRingTest, AReaderThatStalledIsNotWaitedForAgainBeforeItHasMoved) {
  RingWriter writer(ring(), event.get(), OnFull::block_a_while, getppid());
  fill(writer);
  writer.write(std::string(2 * kMiB, 'x'));
  const long slept = times_slept();
  for (int i = 0; i < 100; ++i) writer.notice(std::string(2 * kMiB, 'x'));
  // Each would look again a thousand times; how long a busy machine takes for what they copy is its affair.
  EXPECT_LT(times_slept() - slept, 1000);
}

TEST_F(OutputRingTest, AfterALossTheTraceGoesOnWithAWholeLineAndNotBefore) {
  RingWriter writer(ring(), event.get(), OnFull::block_a_while, getppid());
  fill(writer);
  writer.write("f(");
  writer.write(std::string(2 * kMiB, 'x'));
  EXPECT_TRUE(writer.losing());
  EXPECT_FALSE(writer.may_resume());
  writer.write(") = 1\n");
  RingReader reader(ring(), event.get(), keeping());
  serve(reader);
  EXPECT_TRUE(writer.may_resume());
  writer.write("still lost\n");
  writer.resume();
  EXPECT_FALSE(writer.losing());
  writer.write("whole\n");
  serve(reader);
  EXPECT_THAT(taken.back().second, testing::EndsWith("f( <unfinished ...>\nwhole\n"));
  EXPECT_EQ(writer.take_dropped(), 3u);
}

TEST_F(OutputRingTest, WithNobodyLeftToReadOutputIsThrownAwayAndNoticesAreNot) {
  RingWriter writer(ring(), event.get(), OnFull::block, getppid());
  writer.write("one");
  writer.notice("n1");
  writer.write("two");
  writer.notice("n2");
  EXPECT_FALSE(writer.reader_gone());
  std::vector<std::string> offered;
  RingReader reader(ring(), event.get(), [&](Channel channel, std::string_view bytes) {
    offered.emplace_back(bytes);
    return channel != Channel::output;
  });
  serve(reader);
  EXPECT_THAT(offered, ElementsAre("one", "n1", "n2"));
  EXPECT_TRUE(writer.reader_gone());
}

TEST_F(OutputRingTest, AFullRingWithoutAReaderDoesNotHoldTheWriter) {
  RingWriter writer(ring(), event.get(), OnFull::block, getppid());
  fill(writer);
  ring().reader_gone = 1;
  writer.write(std::string(2 * kMiB, 'x'));
  EXPECT_EQ(writer.take_dropped(), 1u);
}

TEST_F(OutputRingTest, AReaderThatHasDiedIsWaitedForNoMore) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const auto say = [&] { return write(ends[1], "x", 1) == 1; };
  const auto hear = [&] {
    char byte = 0;
    return read(ends[0], &byte, 1) == 1;
  };
  const pid_t reader = fork();
  if (reader == 0 && fork() == 0) {
    alarm(60);  // where it waits for ever
    RingWriter writer(ring(), event.get(), OnFull::block, getppid());
    fill(writer);
    (void)say();
    writer.write(std::string(kMiB, 'g'));
    writer.wait_to_resume();
    _exit(say() ? 0 : 1);
  }
  if (reader == 0)
    for (;;) pause();
  close(ends[1]);
  ASSERT_TRUE(hear());
  kill(reader, SIGKILL);
  waitpid(reader, nullptr, 0);
  EXPECT_TRUE(hear());
  close(ends[0]);
}

TEST_F(OutputRingTest, AReaderThatTakesNothingForASecondCostsFramesWhichAreCounted) {
  RingWriter writer(ring(), event.get(), OnFull::block_a_while, getppid());
  fill(writer);
  const uint64_t head = ring().head;
  writer.write(std::string(2 * kMiB, 'x'));
  EXPECT_EQ(ring().head, head) << "a frame is whole or not there";
  writer.notice("small enough");
  EXPECT_GT(ring().head, head);
  EXPECT_EQ(writer.take_dropped(), 1u);
  EXPECT_EQ(writer.take_dropped(), 0u);
  RingReader reader(ring(), event.get(), keeping());
  serve(reader);
  ASSERT_EQ(taken.size(), 2u);
  EXPECT_EQ(taken[0].second.size(), OutputRing::kCapacity - kMiB);
  EXPECT_THAT(taken[1], Pair(Channel::notice, "small enough"));
}

}  // namespace
}  // namespace rtrace::session::output_ring_test
