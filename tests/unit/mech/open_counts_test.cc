#include "rtrace/mech/open_counts.h"

#include <gtest/gtest.h>

#include <cstring>

#include "mech/in_process_recorder.h"

asm(R"(
  .text
  .globl rt_open_calls, rt_open_leaf
  .type rt_open_calls, @function
  .balign 16
rt_open_calls:
  .byte 0x0f, 0x1f, 0x44, 0x00, 0x00
  push %rdi
  call *%rdi
  pop %rdi
  ret

  .type rt_open_leaf, @function
  .balign 16
rt_open_leaf:
  .byte 0x0f, 0x1f, 0x44, 0x00, 0x00
  ret
)");

extern "C" {
void rt_open_calls(void (*)());
void rt_open_leaf();
}

namespace rtrace::mech {
namespace {

struct OwnMemory : Memory {
  size_t read(VirtAddr address, std::span<std::byte> out) const override {
    std::memcpy(out.data(), reinterpret_cast<const void*>(address.value), out.size());
    return out.size();
  }
};

// What is seen in the midst of calls.
struct Look {
  const InProcessRecorder* recorder = nullptr;
  uint64_t raised = 0;  // by so much the stack pointer is said to be higher than it is
  uint64_t ticks = 0;
  std::vector<OpenCount> counts = {};
};
Look look;

void take_look() {
  rt_open_leaf();
  look.ticks = __builtin_ia32_rdtsc();
  const CountingThread thread{InProcessRecorder::thread_pointer(),
                              {reinterpret_cast<uint64_t>(__builtin_frame_address(0)) + look.raised},
                              look.ticks};
  look.counts = open_counts(look.recorder->records(), look.recorder->shared(), OwnMemory(), thread, 2);
}
void call_to_look() {
  rt_open_calls(take_look);
}

class OpenCounts : public testing::Test {
 protected:
  void SetUp() override {
    look = {&recorder};
    recorder.patch();
  }
  void TearDown() override { recorder.unpatch(); }

  InProcessRecorder recorder{
      InProcessRecorder::Setting{agent::Mode::count},
      {{reinterpret_cast<const void*>(&rt_open_calls)}, {reinterpret_cast<const void*>(&rt_open_leaf)}}};
};

TEST_F(OpenCounts, TheOutermostCallOfAFunctionIsKnownWithItsTime) {
  const uint64_t before = __builtin_ia32_rdtsc();
  rt_open_calls(call_to_look);
  ASSERT_EQ(look.counts.size(), 1u);
  EXPECT_EQ(look.counts[0].function, 0u);
  EXPECT_GT(look.counts[0].total, 0u);
  EXPECT_LE(look.counts[0].total, look.ticks - before);
  EXPECT_GT(look.counts[0].inner, 0u) << "the leaf has returned";
  EXPECT_LT(look.counts[0].inner, look.counts[0].total);
}

TEST_F(OpenCounts, OfOneThatHasReturnedThereIsNothing) {
  rt_open_calls(take_look);
  take_look();
  EXPECT_TRUE(look.counts.empty());
}

TEST_F(OpenCounts, OneWhoseFrameIsBelowTheStackPointerHasBeenLeft) {
  look.raised = 1 << 20;
  rt_open_calls(take_look);
  EXPECT_TRUE(look.counts.empty());
}

TEST_F(OpenCounts, TimeForWhichTheThreadIsHeldIsNoCalls) {
  constexpr uint64_t kLong = uint64_t{1} << 40;
  rt_open_leaf();
  recorder.records().held(InProcessRecorder::thread_pointer(), kLong);
  look.ticks = 0;
  rt_open_calls(take_look);
  ASSERT_EQ(look.counts.size(), 1u);
  EXPECT_LT(look.counts[0].total, kLong);
}

}  // namespace
}  // namespace rtrace::mech
