#include "rtrace/mech/open_counts.h"

#include <gtest/gtest.h>

#include <cstring>

#include "mech/in_process_recorder.h"

asm(R"(
  .text
  .macro OPEN_TARGET name
  .globl \name
  .type \name, @function
  .balign 16
\name:
  .byte 0x0f, 0x1f, 0x44, 0x00, 0x00
  .endm

OPEN_TARGET rt_open_outer
  push %rdi
  call *%rdi
  pop %rdi
  ret

OPEN_TARGET rt_open_inner
  push %rdi
  call *%rdi
  pop %rdi
  ret

OPEN_TARGET rt_open_leaf
  ret

# What a library might lend.
  .globl rt_open_adds_ret, rt_open_calls_ret
  add $0x38, %rsp
rt_open_adds_ret:
  ret
rt_open_calls_ret:
  call *%rbx
  ud2
)");

extern "C" {
void rt_open_outer(void (*)());
void rt_open_inner(void (*)());
void rt_open_leaf();
extern const char rt_open_adds_ret[], rt_open_calls_ret[];
}

namespace rtrace::mech::open_counts_test {
namespace {

enum Function : uint32_t { kOuter, kInner, kLeaf, kFunctions };
constexpr uint64_t kSpin = 200'000;  // ticks

struct OwnMemory : Memory {
  size_t read(VirtAddr address, std::span<std::byte> out) const override {
    std::memcpy(out.data(), reinterpret_cast<const void*>(address.value), out.size());
    return out.size();
  }
};

void spin() {
  const uint64_t begin = __builtin_ia32_rdtsc();
  while (__builtin_ia32_rdtsc() - begin < kSpin) {
  }
}

// How it is looked, and what is seen in the midst of calls.
struct Look {
  const InProcessRecorder* recorder = nullptr;
  uint64_t since = 0;
  uint64_t raised = 0;  // by so much the stack pointer is said to be higher than it is
  bool in_our_code = false;
  uint64_t ticks = 0;
  std::vector<OpenCount> counts = {};
};
Look look;

void take_look() {
  rt_open_leaf();
  spin();
  look.ticks = __builtin_ia32_rdtsc();
  const CountingThread thread{InProcessRecorder::thread_pointer(),
                              {reinterpret_cast<uint64_t>(__builtin_frame_address(0)) + look.raised},
                              look.in_our_code,
                              look.ticks};
  const OwnMemory memory;
  look.counts = open_counts(look.recorder->records(), {memory, look.recorder->shared(), look.since}, thread,
                            kFunctions);
}
void call_inner() {
  spin();
  rt_open_inner(take_look);
}
void call_outer() {
  spin();
  rt_open_outer(call_inner);
}

enum class Frame : uint8_t { own, lent, lent_with_arguments };

InProcessRecorder::Function wrapped(auto* function, Frame frame) {
  const auto address = [](const char* at) { return VirtAddr{reinterpret_cast<uint64_t>(at)}; };
  InProcessRecorder::Function made{reinterpret_cast<const void*>(function)};
  constexpr uint32_t kAdds = 0x38;
  constexpr uint8_t kRbx = 3;
  if (frame == Frame::lent) made.borrowed = BorrowedFrame{address(rt_open_adds_ret), kAdds};
  if (frame == Frame::lent_with_arguments) {
    made.borrowed = BorrowedFrame{address(rt_open_calls_ret), 0, kRbx};
    made.plan.passed.bytes = 16;
  }
  return made;
}

class OpenCounts : public testing::TestWithParam<Frame> {
 protected:
  void SetUp() override {
    look = {&recorder, __builtin_ia32_rdtsc()};
    recorder.patch();
  }
  void TearDown() override { recorder.unpatch(); }

  InProcessRecorder recorder{InProcessRecorder::Setting{agent::Mode::count},
                             {wrapped(&rt_open_outer, GetParam()), wrapped(&rt_open_inner, GetParam()),
                              wrapped(&rt_open_leaf, Frame::own)}};
};
INSTANTIATE_TEST_SUITE_P(AllFrames, OpenCounts,
                         testing::Values(Frame::own, Frame::lent, Frame::lent_with_arguments));

TEST_P(OpenCounts, OfEachFunctionTheOutermostIsKnownWithItsTimeAndThatOfCallsInside) {
  rt_open_outer(call_outer);
  ASSERT_EQ(look.counts.size(), 2u);
  const OpenCount &outer = look.counts[0], &inner = look.counts[1];
  EXPECT_EQ(outer.function, kOuter);
  EXPECT_EQ(inner.function, kInner);
  EXPECT_LE(outer.total, look.ticks - look.since);
  EXPECT_GE(inner.total, kSpin);
  EXPECT_GE(outer.total, inner.total + 2 * kSpin) << "the outermost, not the one inside";
  EXPECT_GE(outer.inner, inner.total);
  EXPECT_GE(outer.total - outer.inner, 2 * kSpin);
  EXPECT_GT(inner.inner, 0u) << "the leaf has returned";
  EXPECT_GE(inner.total - inner.inner, kSpin);
}

TEST_P(OpenCounts, OfOneThatHasReturnedThereIsNothing) {
  rt_open_outer(take_look);
  take_look();
  EXPECT_TRUE(look.counts.empty());
}

TEST_P(OpenCounts, OneWhoseFrameIsBelowTheStackPointerHasBeenLeft) {
  look.raised = 1 << 20;
  rt_open_outer(take_look);
  EXPECT_TRUE(look.counts.empty());
}

TEST_P(OpenCounts, InOurCodeTheNewestMayBeHalfMade) {
  look.in_our_code = true;
  rt_open_outer([] {
    char far[4096];
    asm volatile("" : : "r"(far) : "memory");
    rt_open_inner(take_look);
    asm volatile("" : : "r"(far) : "memory");
  });
  ASSERT_EQ(look.counts.size(), 1u);
  EXPECT_EQ(look.counts[0].function, kOuter);
}

TEST_P(OpenCounts, NoneHasBegunBeforeAnythingWasCounted) {
  rt_open_outer([] {
    look.since = __builtin_ia32_rdtsc();
    take_look();
  });
  EXPECT_TRUE(look.counts.empty());
}

TEST_P(OpenCounts, TimeForWhichTheThreadIsHeldIsNoCalls) {
  constexpr uint64_t kLong = uint64_t{1} << 40;
  rt_open_leaf();
  recorder.records().held(InProcessRecorder::thread_pointer(), kLong);
  rt_open_outer(take_look);
  ASSERT_EQ(look.counts.size(), 1u);
  EXPECT_LT(look.counts[0].total, kLong);
}

}  // namespace
}  // namespace rtrace::mech::open_counts_test
