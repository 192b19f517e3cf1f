// What passes through a wrapper behind a borrowed frame, in this process: exceptions, the end of a thread,
// backtraces, and every register.
#include <execinfo.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csetjmp>
#include <span>
#include <stdexcept>
#include <thread>

#include "mech/in_process_recorder.h"
#include "rtrace/arch/placement.h"

asm(R"(
  .text
# What a library might lend: rb_words_ret and rb_whole_ret are the return addresses.
  .globl rb_words_ret, rb_whole_ret, rb_calls_ret, rb_calls_r13_ret
  .type rb_lent_words, @function
rb_lent_words:
  .cfi_startproc
  sub $0x38, %rsp
  .cfi_def_cfa_offset 0x40
  nop
  add $0x38, %rsp
rb_words_ret:
  .cfi_def_cfa_offset 8
  ret
  .cfi_endproc
  .type rb_lent_whole, @function
rb_lent_whole:
  .cfi_startproc
  sub $0x128, %rsp
  .cfi_def_cfa_offset 0x130
  nop
  add $0x128, %rsp
rb_whole_ret:
  .cfi_def_cfa_offset 8
  ret
  .cfi_endproc

# What padding is used for.
  .globl rb_foretold_ret
  .type rb_lent_foretold, @function
rb_lent_foretold:
  .cfi_startproc
  sub $8, %rsp
  .cfi_def_cfa_offset 16
  ud2
  call *-8(%rsp)
rb_foretold_ret:
  .cfi_def_cfa_offset 8
  ret
  .cfi_endproc

  .macro LENT_CALL name, reg
  .globl \name
  .type \name, @function
\name:
  .cfi_startproc
  push %rbp
  .cfi_def_cfa_offset 16
  .cfi_offset rbp, -16
  mov %rsp, %rbp
  .cfi_def_cfa_register rbp
  push %r15
  .cfi_offset r15, -24
  push %r14
  .cfi_offset r14, -32
  push %r13
  .cfi_offset r13, -40
  push %r12
  .cfi_offset r12, -48
  push %rbx
  .cfi_offset rbx, -56
  nop
\name\()_ret:
  call *%\reg
  ud2
  .cfi_endproc
  .endm
LENT_CALL rb_calls, rbx
LENT_CALL rb_calls_r13, r13

  .macro WRAPPED name
  .globl \name
  .type \name, @function
  .balign 16
\name:
  .cfi_startproc
  .byte 0x0f, 0x1f, 0x44, 0x00, 0x00
  .endm

# rb_through(function, argument) calls it.
WRAPPED rb_through
  sub $8, %rsp
  .cfi_def_cfa_offset 16
  mov %rdi, %rax
  mov %rsi, %rdi
  call *%rax
  add $8, %rsp
  .cfi_def_cfa_offset 8
  ret
  .cfi_endproc

# rb_sums(1, 2, ..., 12): each times its place, all of them.
WRAPPED rb_sums
  mov %rdi, %rax
  lea (%rax,%rsi,2), %rax
  lea (%rdx,%rdx,2), %rdx
  add %rdx, %rax
  lea (%rax,%rcx,4), %rax
  imul $5, %r8, %r8
  add %r8, %rax
  imul $6, %r9, %r9
  add %r9, %rax
  .irp place, 7, 8, 9, 10, 11, 12
  imul $\place, 8*(\place - 6)(%rsp), %rdx
  add %rdx, %rax
  .endr
  ret
  .cfi_endproc

# rb_kept(): how many of rbx rbp r12 to r15 are as they were behind a call of rb_sums, whose result comes back
# at its address.
  .globl rb_kept
rb_kept:
  push %rbx
  push %rbp
  push %r12
  push %r13
  push %r14
  push %r15
  push %rdi
  mov $101, %ebx
  mov $102, %ebp
  mov $103, %r12d
  mov $104, %r13d
  mov $105, %r14d
  mov $106, %r15d
  mov $1, %edi
  mov $2, %esi
  mov $3, %edx
  mov $4, %ecx
  mov $5, %r8d
  mov $6, %r9d
  push $12
  push $11
  push $10
  push $9
  push $8
  push $7
  call rb_sums
  add $48, %rsp
  pop %rdi
  mov %rax, (%rdi)
  xor %eax, %eax
  cmp $101, %rbx
  jne 1f
  inc %eax
1:
  cmp $102, %rbp
  jne 1f
  inc %eax
1:
  cmp $103, %r12
  jne 1f
  inc %eax
1:
  cmp $104, %r13
  jne 1f
  inc %eax
1:
  cmp $105, %r14
  jne 1f
  inc %eax
1:
  cmp $106, %r15
  jne 1f
  inc %eax
1:
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbp
  pop %rbx
  ret

WRAPPED rb_sets_all
  mov $1, %eax
  mov $2, %edx
  mov $3, %ecx
  mov $4, %esi
  mov $5, %edi
  mov $6, %r8d
  mov $7, %r9d
  mov $8, %r10d
  mov $9, %r11d
  ret
  .cfi_endproc

WRAPPED rb_tells_rbp
  mov %rbp, %rax
  ret
  .cfi_endproc

WRAPPED rb_tells_rsp
  mov %rsp, %rax
  ret
  .cfi_endproc

# rb_left(table): what rb_sets_all has left in each register.
  .globl rb_left
rb_left:
  push %rbx
  mov %rdi, %rbx
  call rb_sets_all
)" RTRACE_STORE_REGISTERS R"(  pop %rbx
  ret

# What rb_tells_rbp finds.
  .globl rb_found_rbp
rb_found_rbp:
  push %rbp
  mov $0x1234, %ebp
  call rb_tells_rbp
  cmp $0x1234, %ebp
  je 1f
  xor %eax, %eax
1:
  pop %rbp
  ret
)");

extern "C" {
extern const char rb_words_ret[], rb_whole_ret[], rb_calls_ret[], rb_calls_r13_ret[], rb_foretold_ret[];
long rb_sums();
long rb_kept(long* sum);
long rb_through(long (*function)(void*), void* argument);
void rb_sets_all();
uint64_t rb_tells_rbp();
uint64_t rb_tells_rsp();
void rb_left(uint64_t* table);
uint64_t rb_found_rbp();
}

namespace rtrace::mech::borrowed_frame_test {
namespace {

enum class Lent : uint8_t { nothing, words, whole, calls, calls_and_whole, foretold, foretold_and_whole };
constexpr Lent kAll[] = {
    Lent::nothing,           Lent::words, Lent::whole, Lent::calls, Lent::calls_and_whole, Lent::foretold,
    Lent::foretold_and_whole};
constexpr uint32_t kWords = 0x38, kWhole = 0x128;

BorrowedFrame foretold(const char* second, uint32_t adds) {
  const auto address = [](const char* at) { return VirtAddr{reinterpret_cast<uint64_t>(at)}; };
  return {address(rb_foretold_ret), adds + 16, 0, 8, address(second)};
}

InProcessRecorder::Function behind(auto* function, Lent lent) {
  InProcessRecorder::Function wrapped{reinterpret_cast<const void*>(function)};
  if (lent == Lent::words)
    wrapped.borrowed = BorrowedFrame{{reinterpret_cast<uint64_t>(rb_words_ret)}, kWords};
  if (lent == Lent::whole) {
    wrapped.borrowed = BorrowedFrame{{reinterpret_cast<uint64_t>(rb_whole_ret)}, kWhole};
    wrapped.plan.flags = agent::FunctionPlan::kCapturesAtReturn;
  }
  if (lent == Lent::calls || lent == Lent::calls_and_whole) {
    constexpr uint8_t kRbx = 3, kR13 = 13;
    const bool whole = lent == Lent::calls_and_whole;
    const char* ret = whole ? rb_calls_r13_ret : rb_calls_ret;
    wrapped.borrowed = BorrowedFrame{{reinterpret_cast<uint64_t>(ret)}, 0, whole ? kR13 : kRbx};
    wrapped.plan.passed.bytes = 48;
    if (whole) wrapped.plan.flags = agent::FunctionPlan::kCapturesAtReturn;
  }
  if (lent == Lent::foretold) wrapped.borrowed = foretold(rb_words_ret, kWords);
  if (lent == Lent::foretold_and_whole) {
    wrapped.borrowed = foretold(rb_whole_ret, kWhole);
    wrapped.plan.flags = agent::FunctionPlan::kCapturesAtReturn;
  }
  return wrapped;
}

const char* name_of(Lent lent) {
  const char* const names[] = {"nothing",           "words", "whole", "calls", "calls_and_whole", "foretold",
                               "foretold_and_whole"};
  return names[static_cast<size_t>(lent)];
}

struct Destroyed {
  explicit Destroyed(long& count) : count_(count) {}
  ~Destroyed() { ++count_; }
  Destroyed(const Destroyed&) = delete;
  Destroyed& operator=(const Destroyed&) = delete;

 private:
  long& count_;
};

long throw_it(void* value) {
  throw *static_cast<long*>(value);
}

long rethrow_it(void* value) {
  try {
    return rb_through(throw_it, value);
  } catch (long) {
    throw;
  }
}

bool is_caught(long (*function)(void*), long value) {
  long destroyed = 0;
  try {
    const Destroyed guard(destroyed);
    rb_through(function, &value);
  } catch (long caught) {
    return caught == value && destroyed == 1;
  }
  return false;
}

class BorrowedFrames : public testing::TestWithParam<std::pair<agent::Mode, Lent>> {
 protected:
  agent::Mode mode() const { return GetParam().first; }
  Lent lent() const { return GetParam().second; }
  // Never full, for nobody reads.
  InProcessRecorder::Setting setting() const { return {mode(), agent::OnFull::drop, uint64_t{1} << 20}; }
  static uint64_t entered(const InProcessRecorder& recorder) {
    return counted_calls(recorder.records())[0].entered;
  }
};

TEST_P(BorrowedFrames, LetExceptionsPass) {
  constexpr long kThreads = 4, kEach = 25'000;
  InProcessRecorder recorder(setting(), {behind(rb_through, lent())});
  recorder.patch();
  std::atomic<long> caught = 0;
  const auto work = [&] {
    for (long i = 0; i < kEach; ++i) caught += is_caught(i % 2 == 0 ? throw_it : rethrow_it, i);
  };
  std::vector<std::thread> threads;
  for (long i = 0; i < kThreads; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  recorder.unpatch();
  EXPECT_EQ(caught, kThreads * kEach);
  if (mode() == agent::Mode::count) {
    EXPECT_EQ(entered(recorder), uint64_t{kThreads} * kEach * 3 / 2);
  }
}

long exit_it(void*) {
  pthread_exit(nullptr);
}

long wait_for_ever(void* reached) {
  static_cast<std::atomic<bool>*>(reached)->store(true);
  for (;;) pause();
}

struct Ending {
  bool cancelled = false;
  long destroyed = 0;
  std::atomic<bool> reached = false;
};

void* ends(void* argument) {
  auto* ending = static_cast<Ending*>(argument);
  const Destroyed guard(ending->destroyed);
  rb_through(ending->cancelled ? wait_for_ever : exit_it, &ending->reached);
  return argument;
}

// The C library ends threads by libgcc_s, whatever copy of libgcc this program has linked to itself: that
// copy's own table of registers is made by its first exception.
void warm_up_unwinder() {
  try {
    throw 0;
  } catch (int) {
  }
}

TEST_P(BorrowedFrames, LetThreadsEnd) {
  warm_up_unwinder();
  InProcessRecorder recorder(setting(), {behind(rb_through, lent())});
  recorder.patch();
  for (int i = 0; i < 100; ++i) {
    Ending ending;
    ending.cancelled = i % 2 == 0;
    pthread_t thread{};
    ASSERT_EQ(pthread_create(&thread, nullptr, ends, &ending), 0);
    while (ending.cancelled && !ending.reached) std::this_thread::yield();
    if (ending.cancelled) pthread_cancel(thread);
    void* result = nullptr;
    pthread_join(thread, &result);
    ASSERT_EQ(result, ending.cancelled ? PTHREAD_CANCELED : nullptr);
    ASSERT_EQ(ending.destroyed, 1);
  }
  recorder.unpatch();
}

struct Trace {
  void* frames[64] = {};
  int count = 0;
};

long take_backtrace(void* argument) {
  auto* trace = static_cast<Trace*>(argument);
  trace->count = backtrace(trace->frames, 64);
  return 0;
}

__attribute__((noinline)) Trace trace_through() {
  Trace trace;
  rb_through(take_backtrace, &trace);
  return trace;
}

// Two, where the return is foretold.
TEST_P(BorrowedFrames, AreOneMoreFrameOfABacktrace) {
  const Trace plain = trace_through();
  InProcessRecorder recorder(setting(), {behind(rb_through, lent())});
  recorder.patch();
  Trace wrapped = trace_through();
  recorder.unpatch();
  auto* end = wrapped.frames + wrapped.count;
  auto* lender = std::find_if(wrapped.frames, end, [](const void* frame) {
    return frame == rb_words_ret || frame == rb_whole_ret || frame == rb_calls_ret ||
           frame == rb_calls_r13_ret || frame == rb_foretold_ret;
  });
  ASSERT_NE(lender, end);
  const int more = *lender == rb_foretold_ret ? 2 : 1;
  std::copy(lender + more, end, lender);
  ASSERT_EQ(wrapped.count - more, plain.count);
  // But for the two calls of trace_through() itself.
  int different = 0;
  for (int i = 0; i < plain.count; ++i) different += wrapped.frames[i] != plain.frames[i];
  EXPECT_LE(different, 1);
}

std::jmp_buf away;
long jump_away(void*) {
  std::longjmp(away, 1);
}

TEST_P(BorrowedFrames, AreLeftByALongjmp) {
  InProcessRecorder recorder(setting(), {behind(rb_through, lent())});
  recorder.patch();
  volatile int left = 0;
  if (setjmp(away) != 0) left = left + 1;
  if (left < 1000) rb_through(jump_away, nullptr);
  recorder.unpatch();
  EXPECT_EQ(left, 1000);
}

std::string name_of_case(const testing::TestParamInfo<BorrowedFrames::ParamType>& info) {
  const char* const modes[] = {"off", "record", "count"};
  return std::string(modes[static_cast<int>(info.param.first)]) + "_" + name_of(info.param.second);
}

INSTANTIATE_TEST_SUITE_P(
    Modes, BorrowedFrames,
    testing::Values(std::pair(agent::Mode::off, Lent::words), std::pair(agent::Mode::record, Lent::words),
                    std::pair(agent::Mode::record, Lent::whole), std::pair(agent::Mode::off, Lent::calls),
                    std::pair(agent::Mode::record, Lent::calls),
                    std::pair(agent::Mode::record, Lent::calls_and_whole),
                    std::pair(agent::Mode::count, Lent::calls), std::pair(agent::Mode::count, Lent::words),
                    std::pair(agent::Mode::off, Lent::foretold),
                    std::pair(agent::Mode::record, Lent::foretold),
                    std::pair(agent::Mode::count, Lent::foretold),
                    std::pair(agent::Mode::record, Lent::foretold_and_whole)),
    name_of_case);

// Callers that know a function rely on the registers that it does not touch.
TEST(Wrapper, LeavesAllRegistersAsTheFunctionDoes) {
  for (const auto mode : {agent::Mode::off, agent::Mode::record, agent::Mode::count}) {
    for (const Lent lent : kAll) {
      InProcessRecorder recorder({mode, agent::OnFull::drop, uint64_t{1} << 16}, {behind(rb_sets_all, lent)});
      recorder.patch();
      uint64_t left[9] = {};
      rb_left(left);
      recorder.unpatch();
      for (uint64_t i = 0; i < std::size(left); ++i) EXPECT_EQ(left[i], i + 1) << name_of(lent);
    }
  }
}

TEST(Wrapper, HandsArgumentsInMemoryOnThroughABorrowedFrame) {
  for (const auto mode : {agent::Mode::off, agent::Mode::record, agent::Mode::count}) {
    for (const Lent lent : {Lent::calls, Lent::calls_and_whole}) {
      InProcessRecorder recorder({mode, agent::OnFull::drop, uint64_t{1} << 16}, {behind(rb_sums, lent)});
      long sum = 0;
      // No tracer is here to be asked of them: the arguments may lie on two pages.
      const uint64_t page = reinterpret_cast<uint64_t>(__builtin_frame_address(0)) / arch::kPageSize;
      for (const uint64_t near : {page - 1, page, page + 1}) recorder.records().know_page(near);
      recorder.patch();
      const long kept = rb_kept(&sum);
      recorder.unpatch();
      EXPECT_EQ(sum, 650) << name_of(lent);
      EXPECT_EQ(kept, 6) << name_of(lent);
    }
  }
}

// With arguments in memory rbp leads to the frame instead, as in any function that makes one.
TEST(Wrapper, BehindABorrowedFrameShowsTheCallersRbpAndAnAlignedStack) {
  for (const Lent lent : std::span(kAll).subspan(1)) {
    InProcessRecorder recorder({agent::Mode::count, agent::OnFull::drop, uint64_t{1} << 16},
                               {behind(rb_tells_rbp, lent), behind(rb_tells_rsp, lent)});
    recorder.patch();
    const uint64_t rbp = rb_found_rbp(), rsp = rb_tells_rsp();
    recorder.unpatch();
    const bool by_rbp = lent == Lent::calls || lent == Lent::calls_and_whole;
    EXPECT_TRUE(by_rbp ? rbp != 0 : rbp == 0x1234) << name_of(lent);
    EXPECT_EQ(rsp % 16, 8u) << name_of(lent);
  }
}

}  // namespace
}  // namespace rtrace::mech::borrowed_frame_test
