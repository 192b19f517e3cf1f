// What a wrapped call costs, against the least that it could: two stamps and one record. The figures are
// printed; only a gross failure fails, for other programs run on the machine that tests run on.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <thread>

#include "mech/in_process_recorder.h"
#include "rtrace/arch/placement.h"

asm(R"(
  .text
  .globl rt_leaf
  .type rt_leaf, @function
  .balign 16
rt_leaf:
  .byte 0x0f, 0x1f, 0x44, 0x00, 0x00
  mov %rdi, %rax
  ret

# A frame to borrow.
  .globl rt_lent_ret
rt_lent:
  add $0x38, %rsp
rt_lent_ret:
  ret

# What a call without a recorder would cost: rt_loop(function, count, argument).
  .globl rt_loop
  .balign 16
rt_loop:
  push %rbx
  push %rbp
  push %r12
  mov %rdi, %rbx
  mov %rsi, %rbp
  mov %rdx, %r12
1:
  mov %r12, %rdi
  call *%rbx
  dec %rbp
  jnz 1b
  pop %r12
  pop %rbp
  pop %rbx
  ret

# The floor: two stamps and one record of 64 bytes, in a ring that rdi points to.
  .globl rt_floor
  .balign 16
rt_floor:
  rdtsc
  shl $32, %rdx
  or %rdx, %rax
  mov %rax, %rcx
  rdtsc
  shl $32, %rdx
  or %rdx, %rax
  mov (%rdi), %rdx
  lea 64(%rdx), %rsi
  and $0xffff, %edx
  add %rdi, %rdx
  movq $1, 64(%rdx)
  mov %rcx, 72(%rdx)
  mov %rax, 80(%rdx)
  mov %rdi, 88(%rdx)
  mov %rsi, 96(%rdx)
  mov %rsp, 104(%rdx)
  mov %rcx, 112(%rdx)
  mov %rax, 120(%rdx)
  mov %rsi, (%rdi)
  ret
)");

extern "C" {
uint64_t rt_leaf(const void*);
void rt_loop(const void* function, uint64_t count, const void* argument);
void rt_floor(void*);
extern const char rt_lent_ret[];
}

namespace rtrace::mech::recorder_cost_test {
namespace {

constexpr uint64_t kCalls = 10'000, kRounds = 60;

double nanoseconds(const std::function<void()>& what) {
  timespec begin{}, end{};
  clock_gettime(CLOCK_MONOTONIC, &begin);
  what();
  clock_gettime(CLOCK_MONOTONIC, &end);
  return static_cast<double>(end.tv_sec - begin.tv_sec) * 1e9 +
         static_cast<double>(end.tv_nsec - begin.tv_nsec);
}

const void* leaf() {
  return reinterpret_cast<const void*>(rt_leaf);
}

struct Costs {
  double floor = 1e9, call = 1e9, plain = 1e9;
};

// The best of many short rounds, in turns: what other programs take is in some of them only.
Costs costs(InProcessRecorder& recorder, const void* argument) {
  alignas(64) static char ring[(1 << 16) + 256];
  Costs best;
  for (uint64_t round = 0; round < kRounds; ++round) {
    best.plain = std::min(best.plain, nanoseconds([&] { rt_loop(leaf(), kCalls, argument); }) / kCalls);
    best.floor = std::min(best.floor, nanoseconds([&] {
                                        rt_loop(reinterpret_cast<const void*>(rt_floor), kCalls, ring);
                                      }) / kCalls);
    recorder.patch();
    best.call = std::min(best.call, nanoseconds([&] { rt_loop(leaf(), kCalls, argument); }) / kCalls);
    recorder.unpatch();
    recorder.read_all([](const Record& record, size_t) { ASSERT_NE(record.kind, Record::Kind::lost); });
  }
  best.floor -= best.plain;
  best.call -= best.plain;
  return best;
}

void report(const char* what, const Costs& costs) {
  std::printf("  %-28s %6.1f ns a call, floor %5.1f ns, ratio %.2f\n", what, costs.call, costs.floor,
              costs.call / costs.floor);
#ifdef NDEBUG
  EXPECT_LT(costs.call, 10 * costs.floor);
#endif
}

TEST(RecorderCost, IsAFewTimesThatOfTwoStampsAndARecord) {
  const auto setting = [](agent::Mode mode) {
    return InProcessRecorder::Setting{mode, agent::OnFull::block, uint64_t{4} << 20};
  };
  InProcessRecorder::Function preserved{leaf()}, string{leaf()};
  preserved.plan.entry_words = agent::kEntryWords;
  string.plan.flags = agent::FunctionPlan::kCapturesAtEntry;
  string.plan.at_entry.count = 1;
  string.plan.at_entry.captures[0] = {
      agent::Capture::Source::integer_register, agent::Capture::Length::string, 0, 0, 1, 0, 33};
  const std::string text = "thirty bytes of text, or so...";
  {
    InProcessRecorder recorder(setting(agent::Mode::off), {{leaf()}});
    report("switched off", costs(recorder, nullptr));
  }
  {
    InProcessRecorder recorder(setting(agent::Mode::record), {{leaf()}});
    report("two records", costs(recorder, nullptr));
  }
  {
    InProcessRecorder recorder(setting(agent::Mode::record), {preserved});
    report("with preserved registers", costs(recorder, nullptr));
  }
  {
    InProcessRecorder recorder(setting(agent::Mode::record), {string});
    recorder.records().know_page(reinterpret_cast<uint64_t>(text.c_str()) / arch::kPageSize);
    report("with a string of 30 bytes", costs(recorder, text.c_str()));
  }
  {
    InProcessRecorder recorder(setting(agent::Mode::count), {{leaf()}});
    report("counted, with a histogram", costs(recorder, nullptr));
  }
  InProcessRecorder::Function borrowing{leaf()};
  borrowing.borrowed = BorrowedFrame{{reinterpret_cast<uint64_t>(rt_lent_ret)}, 0x38};
  {
    InProcessRecorder recorder(setting(agent::Mode::count), {borrowing});
    report("counted, a frame borrowed", costs(recorder, nullptr));
  }
  {
    InProcessRecorder recorder(setting(agent::Mode::record), {borrowing});
    report("two records, a frame borrowed", costs(recorder, nullptr));
  }
}

}  // namespace
}  // namespace rtrace::mech::recorder_cost_test
