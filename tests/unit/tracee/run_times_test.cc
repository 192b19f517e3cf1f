#include "rtrace/tracee/run_times.h"

#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <unistd.h>

#include "child.h"

namespace rtrace::tracee::run_times_test {
namespace {

TEST(RunTimes, AreTheFirstAndTheThirdNumber) {
  EXPECT_EQ(parse_run_times("123456789 42 7\n"), (RunTimes{123456789, 7}));
  EXPECT_EQ(parse_run_times("18446744073709551615 0 0\n"), (RunTimes{~uint64_t{0}, 0}));
  EXPECT_EQ(parse_run_times("1 2"), std::nullopt);
  EXPECT_EQ(parse_run_times("1 x 3"), std::nullopt);
  EXPECT_EQ(parse_run_times(""), std::nullopt);
}

TEST(RunTimes, OfAThreadGrowWhileItRuns) {
  RunTimesFile file;
  const auto before = file.read(getpid(), gettid());
  if (!before) GTEST_SKIP() << "this kernel keeps no /proc/PID/schedstat";
  // The account of a task that runs is brought up to date at each tick.
  auto after = before;
  while (after && after->ran == before->ran) after = file.read(getpid(), gettid());
  ASSERT_TRUE(after);
  EXPECT_GT(after->ran, before->ran);
  EXPECT_GE(after->slices, before->slices);
}

TEST(RunTimes, OfATaskThatIsNotThereAreNone) {
  RunTimesFile file;
  EXPECT_EQ(file.read(getpid(), 0x7ffffff0), std::nullopt);
  EXPECT_EQ(file.read(getpid(), gettid()), std::nullopt);
}

TEST(RseqProcessor, IsWhereTheTaskCameFromTheKernelLast) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  tests::Pipe ready;
  const tests::Child child([&]() -> int {
    for (ready.signal();;) sched_yield();
  });
  ASSERT_TRUE(ready.wait());
  ASSERT_EQ(seize(child.pid()), 0);
  const ProcessMemory memory(child.pid());
  RseqProcessor processor;
  for (size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    ASSERT_EQ(sched_setaffinity(child.pid(), sizeof one, &one), 0);
    const auto stopped_on = [&]() -> std::optional<int> {
      if (interrupt(child.pid()) == Alive::gone || !consume(child.pid(), Block::yes)) return std::nullopt;
      return processor.read(child.pid(), memory);
    };
    auto found = stopped_on();
    __ptrace_rseq_configuration area{};
    if (!found && (ptrace(PTRACE_GET_RSEQ_CONFIGURATION, child.pid(), sizeof area, &area) != sizeof area ||
                   area.rseq_abi_pointer == 0))
      GTEST_SKIP() << "this kernel or C library has no rseq";
    // At the first stop it may not have come back from the kernel since it was moved.
    for (int i = 0; i < 100'000 && found && static_cast<size_t>(*found) != cpu; ++i) {
      ASSERT_EQ(resume(child.pid()), Alive::yes);
      found = stopped_on();
    }
    EXPECT_EQ(found, static_cast<int>(cpu));
    ASSERT_EQ(resume(child.pid()), Alive::yes);
  }
}

}  // namespace
}  // namespace rtrace::tracee::run_times_test
