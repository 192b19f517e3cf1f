// Wrappers, blob and reader together, in one process: what a tracer would have put there is put there by the
// test.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cerrno>
#include <thread>

#include "mech/in_process_recorder.h"
#include "rtrace/arch/placement.h"

// Functions that begin with five bytes of nop, and say what they were given.
asm(R"(
  .text
  .macro TARGET name
  .globl \name
  .type \name, @function
  .balign 16
\name:
  .byte 0x0f, 0x1f, 0x44, 0x00, 0x00
  .endm

TARGET rt_add
  lea (%rdi,%rsi), %rax
  ret

TARGET rt_outer
  push %rdi
  call rt_add
  pop %rdi
  ret

TARGET rt_calls
  push %rdi
  call *%rdi
  pop %rdi
  ret

TARGET rt_stack_arguments
  mov 8(%rsp), %rax
  add 16(%rsp), %rax
  add 56(%rsp), %rax
  add %r9, %rax
  ret

# Stores rax rdx rcx rsi rdi r8 r9 r10 r11 to the memory that rbx points to, and returns rax and rdx.
TARGET rt_registers
)" RTRACE_STORE_REGISTERS R"(  mov $0x1234, %eax
  mov $0x5678, %edx
  ret

TARGET rt_halve
  movsd rt_half(%rip), %xmm1
  mulsd %xmm1, %xmm0
  ret

TARGET rt_string
  mov %rdi, %rax
  ret

TARGET rt_fails
  push %rbx
  call __errno_location@plt
  movl $2, (%rax)
  mov $-1, %rax
  pop %rbx
  ret

  .section .rodata
rt_half:
  .double 0.5
  .text
)");

extern "C" {
uint64_t rt_add(uint64_t, uint64_t);
uint64_t rt_outer(uint64_t, uint64_t);
void rt_calls(void (*)());
uint64_t rt_stack_arguments(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                            uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);
void rt_registers();
double rt_halve(double);
const char* rt_string(const char*, uint64_t);
int64_t rt_fails();
}

namespace rtrace::mech::recorder_test {
namespace {

const void* entry_of(auto* function) {
  return reinterpret_cast<const void*>(function);
}

using Kind = Record::Kind;
using Setting = InProcessRecorder::Setting;

TEST(Recorder, ShowsACallsEntryAndReturnWithItsArguments) {
  InProcessRecorder recorder(Setting{}, {{entry_of(rt_add)}});
  recorder.patch();
  EXPECT_EQ(rt_add(3, 4), 7u);
  recorder.unpatch();
  std::vector<Record> seen;
  recorder.read_all([&](const Record& record, size_t) { seen.push_back(record); });
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen[0].kind, Kind::thread);
  EXPECT_EQ(seen[0].tid, gettid());
  EXPECT_EQ(seen[1].kind, Kind::entered);
  EXPECT_EQ(seen[1].arguments[0], 3u);
  EXPECT_EQ(seen[1].arguments[1], 4u);
  EXPECT_EQ(seen[2].kind, Kind::returned);
  EXPECT_EQ(seen[2].call, seen[1].call);
  EXPECT_EQ(seen[2].result, 7u);
  EXPECT_LE(seen[1].ticks, seen[2].ticks);
}

TEST(Recorder, ShowsCallsInsideCallsInTheirOrder) {
  InProcessRecorder recorder(Setting{}, {{entry_of(rt_outer)}, {entry_of(rt_add)}});
  recorder.patch();
  EXPECT_EQ(rt_outer(1, 2), 3u);
  recorder.unpatch();
  std::string order;
  uint64_t outer_sp = 0;
  recorder.read_all([&](const Record& record, size_t) {
    if (record.kind == Kind::entered) order += record.function == 0 ? "(" : "[";
    if (record.kind == Kind::returned) order += record.function == 0 ? ")" : "]";
    if (record.kind != Kind::entered) return;
    if (record.function == 0) outer_sp = record.sp;
    EXPECT_LE(record.sp, outer_sp);
  });
  EXPECT_EQ(order, "([])");
}

// Everything that can carry an argument, and both results.
TEST(Recorder, LeavesRegistersAsTheyWere) {
  for (const auto mode : {agent::Mode::off, agent::Mode::record, agent::Mode::count}) {
    InProcessRecorder recorder(Setting{mode}, {{entry_of(rt_registers)}});
    recorder.patch();
    uint64_t seen[9] = {}, rax = 1, rdx = 2;
    asm volatile(R"(
      mov %[seen], %%rbx
      mov $3, %%ecx
      mov $4, %%esi
      mov $5, %%edi
      mov $6, %%r8d
      mov $7, %%r9d
      mov $8, %%r10d
      mov $9, %%r11d
      sub $256, %%rsp
      call rt_registers
      add $256, %%rsp
    )"
                 : "+a"(rax), "+d"(rdx)
                 : [seen] "r"(seen)
                 : "rbx", "rcx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory", "cc");
    recorder.unpatch();
    for (uint64_t i = 0; i < 9; ++i) EXPECT_EQ(seen[i], i + 1);
    EXPECT_EQ(rax, 0x1234u);
    EXPECT_EQ(rdx, 0x5678u);
  }
}

TEST(Recorder, HandsOnArgumentsInMemoryAndShowsThem) {
  for (const auto mode : {agent::Mode::off, agent::Mode::record, agent::Mode::count}) {
    InProcessRecorder::Function function{entry_of(rt_stack_arguments)};
    function.plan.passed.bytes = 64;
    function.plan.shown_bytes = 24;
    InProcessRecorder recorder(Setting{mode}, {function});
    // No tracer is here to be asked of them: the arguments may lie on two pages.
    const uint64_t page = reinterpret_cast<uint64_t>(__builtin_frame_address(0)) / arch::kPageSize;
    for (const uint64_t near : {page - 1, page, page + 1}) recorder.records().know_page(near);
    recorder.patch();
    EXPECT_EQ(rt_stack_arguments(0, 0, 0, 0, 0, 1000, 1, 2, 4, 8, 16, 32, 64), 1067u);
    recorder.unpatch();
    recorder.read_all([&](const Record& record, size_t) {
      if (record.kind != Kind::entered) return;
      ASSERT_EQ(record.pieces.size(), 1u);
      EXPECT_EQ(record.pieces[0].label, record.sp + 8);
      uint64_t words[3] = {};
      ASSERT_EQ(record.pieces[0].bytes.size(), sizeof words);
      std::memcpy(words, record.pieces[0].bytes.data(), sizeof words);
      EXPECT_EQ(words[0] + words[1] + words[2], 7u);
    });
  }
}

TEST(Recorder, ShowsVectorRegisters) {
  InProcessRecorder::Function function{entry_of(rt_halve)};
  function.plan.flags = agent::FunctionPlan::kVectors;
  InProcessRecorder recorder(Setting{}, {function});
  recorder.patch();
  EXPECT_EQ(rt_halve(5.0), 2.5);
  recorder.unpatch();
  std::vector<double> seen;
  recorder.read_all([&](const Record& record, size_t) {
    for (const CapturedPiece& piece : record.pieces) {
      EXPECT_EQ(piece.label, agent::kVectorPiece);
      std::memcpy(&seen.emplace_back(), piece.bytes.data(), sizeof(double));
    }
  });
  EXPECT_EQ(seen, (std::vector<double>{5.0, 2.5}));
}

agent::FunctionPlan string_plan() {
  agent::FunctionPlan plan = plain_plan();
  plan.flags = agent::FunctionPlan::kCapturesAtEntry | agent::FunctionPlan::kCapturesAtReturn;
  plan.at_entry.count = 1;
  plan.at_entry.captures[0] = {
      agent::Capture::Source::integer_register, agent::Capture::Length::string, 0, 0, 1, 0, 33};
  plan.at_return.count = 2;
  plan.at_return.captures[0] = {
      agent::Capture::Source::result, agent::Capture::Length::string, 0, 0, 1, 0, 8};
  plan.at_return.captures[1] = {
      agent::Capture::Source::integer_register, agent::Capture::Length::argument, 0, 1, 1, 0, 16};
  return plan;
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(Recorder, CopiesWhatThePlanNamesAtEntryAndReturn) {
  InProcessRecorder recorder(Setting{}, {{entry_of(rt_string), string_plan()}});
  recorder.patch();
  const std::string text = "thirty bytes of text, or so...";
  recorder.records().know_page(reinterpret_cast<uint64_t>(text.c_str()) / arch::kPageSize);
  rt_string(text.c_str(), 3);
  recorder.unpatch();
  std::vector<std::string> seen;
  recorder.read_all([&](const Record& record, size_t) {
    for (const CapturedPiece& piece : record.pieces) {
      EXPECT_EQ(piece.label, reinterpret_cast<uint64_t>(text.c_str()));
      seen.push_back(text_of(piece.bytes));
    }
  });
  EXPECT_EQ(seen, (std::vector<std::string>{text + '\0', text.substr(0, 8), text.substr(0, 3)}));
}

TEST(Recorder, BadPointersLeaveTheirBytesOutAndHarmNobody) {
  InProcessRecorder recorder(Setting{}, {{entry_of(rt_string), string_plan()}});
  recorder.patch();
  for (const uint64_t wild :
       {uint64_t{0}, uint64_t{8}, uint64_t{0x41414141}, uint64_t{1} << 62, ~uint64_t{0}})
    rt_string(reinterpret_cast<const char*>(wild), ~uint64_t{0});
  recorder.unpatch();
  unsigned calls = 0;
  recorder.read_all([&](const Record& record, size_t) {
    calls += record.kind == Kind::returned;
    EXPECT_TRUE(record.pieces.empty());
  });
  EXPECT_EQ(calls, 5u);
}

TEST(Recorder, ShowsErrnoAtTheReturn) {
  InProcessRecorder::Function function{entry_of(rt_fails)};
  uint64_t thread = 0;
  asm("mov %%fs:0, %0" : "=r"(thread));
  function.plan.errno_offset = static_cast<int64_t>(reinterpret_cast<uint64_t>(&errno) - thread);
  InProcessRecorder recorder(Setting{}, {function});
  recorder.patch();
  EXPECT_EQ(rt_fails(), -1);
  recorder.unpatch();
  int number = 0;
  recorder.read_all([&](const Record& record, size_t) {
    if (record.kind != Kind::returned) return;
    ASSERT_EQ(record.pieces.size(), 1u);
    std::memcpy(&number, record.pieces[0].bytes.data(), sizeof number);
  });
  EXPECT_EQ(number, 2);
}

TEST(Recorder, AnUnfollowedChildPassesStraightThrough) {
  InProcessRecorder recorder(Setting{}, {{entry_of(rt_add)}});
  recorder.patch();
  const pid_t child = fork();
  if (child == 0) {
    recorder.control() = {};  // what MADV_WIPEONFORK does
    _exit(rt_add(20, 22) == 42 ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  recorder.unpatch();
  EXPECT_EQ(status, 0);
  recorder.read_all([&](const Record&, size_t) { ADD_FAILURE() << "the child recorded"; });
}

extern "C" uint64_t rtrace_append_words(agent::Slot*, const void* words, uint64_t count);  // agent/append.S

// What a tracer does that leaves while the call is open.
InProcessRecorder* parted = nullptr;

void part() {
  const auto kept = parted->records().without_records();
  auto* memory = reinterpret_cast<std::byte*>(&parted->records().header());
  const agent::SharedLayout layout = parted->records().size().layout();
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;
  ASSERT_EQ(mmap(memory, layout.size, PROT_NONE, kFlags, -1, 0), memory);
  ASSERT_EQ(mprotect(memory, layout.rings, PROT_READ | PROT_WRITE), 0);
  for (const auto& [offset, bytes] : kept) std::memcpy(memory + offset, bytes.data(), bytes.size());
  parted->control().mode = agent::Mode::off;
  EXPECT_EQ(parted->records().open_calls(), 1);
  // A thread that a signal has taken back to the beginning of an append.
  agent::Slot& slot = parted->records().slot(parted->records().used().front());
  const uint64_t words[agent::kAllEntryWords] = {};
  for (uint64_t count : {agent::kReturnWords, agent::kAllEntryWords})
    EXPECT_EQ(rtrace_append_words(&slot, words, count), 0);
}

TEST(Recorder, ACallThatIsOpenWhenTheMemoryIsPartedEndsInWhatWasKept) {
  InProcessRecorder recorder({}, {{reinterpret_cast<const void*>(rt_calls)}});
  parted = &recorder;
  recorder.patch();
  rt_calls(part);
  recorder.unpatch();
  EXPECT_EQ(recorder.records().used().size(), 1);
  EXPECT_EQ(recorder.records().open_calls(), 0);
}

TEST(Recorder, LosesNothingWhereTheThreadsWaitForTheReader) {
  constexpr unsigned kThreads = 4, kCalls = 100'000;
  InProcessRecorder recorder(Setting{.ring_bytes = agent::kLeastRing}, {{entry_of(rt_add)}});
  recorder.patch();
  std::atomic<unsigned> running{kThreads};
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < kThreads; ++i)
    threads.emplace_back([&] {
      for (unsigned n = 0; n < kCalls; ++n) rt_add(n, 0);
      --running;
    });
  std::vector<uint64_t> next(64), returned(64);
  const auto take = [&](const Record& record, size_t ring) {
    ASSERT_NE(record.kind, Kind::lost);
    ASSERT_NE(record.kind, Kind::broken);
    if (record.kind == Kind::thread) return;
    const bool entry = record.kind == Kind::entered;
    ASSERT_EQ(entry ? record.arguments[0] : record.result, entry ? next[ring]++ : returned[ring]++);
  };
  while (running != 0) recorder.read_all(take);
  threads.clear();
  recorder.read_all(take);
  recorder.unpatch();
  uint64_t all = 0;
  for (uint64_t calls : returned) all += calls;
  EXPECT_EQ(all, kThreads * kCalls);
}

TEST(Recorder, CountsExactlyWhatItDrops) {
  constexpr unsigned kCalls = 50'000;
  InProcessRecorder recorder(Setting{.on_full = agent::OnFull::drop, .ring_bytes = agent::kLeastRing},
                             {{entry_of(rt_add)}});
  recorder.patch();
  uint64_t entered = 0, returned = 0, lost_entries = 0, lost_returns = 0;
  for (unsigned round = 0; round < 5; ++round) {
    for (unsigned n = 0; n < kCalls; ++n) rt_add(n, 0);
    recorder.read_all([&](const Record& record, size_t) {
      entered += record.kind == Kind::entered;
      returned += record.kind == Kind::returned;
      lost_entries += record.entries;
      lost_returns += record.returns;
    });
  }
  recorder.unpatch();
  EXPECT_GT(lost_entries, 0u);
  EXPECT_EQ(entered + lost_entries, 5 * kCalls);
  EXPECT_EQ(returned + lost_returns, entered);
}

TEST(Recorder, AThreadThatWaitsGoesOnWhenTheOwnerDies) {
  InProcessRecorder recorder(Setting{.ring_bytes = agent::kLeastRing}, {{entry_of(rt_add)}});
  recorder.patch();
  std::atomic<bool> done{false};
  std::jthread thread([&] {
    for (unsigned n = 0; n < 10'000; ++n) rt_add(n, 0);
    done = true;
  });
  while (recorder.records().header().asked == 0) std::this_thread::yield();
  EXPECT_FALSE(done);
  __atomic_store_n(&recorder.records().header().owner, agent::kOwnerDied, __ATOMIC_RELEASE);
  thread.join();
  recorder.unpatch();
  EXPECT_TRUE(done);
}

TEST(Recorder, AThreadThatFollowsAnotherOnItsPlaceIsToldApart) {
  InProcessRecorder recorder(Setting{}, {{entry_of(rt_add)}});
  recorder.patch();
  std::vector<pid_t> expected;
  for (unsigned i = 0; i < 20; ++i) {
    pid_t tid = 0;
    uint64_t thread_pointer = 0;
    std::thread([&] {
      tid = gettid();
      asm volatile("mov %%fs:0, %0" : "=r"(thread_pointer));
      rt_add(0, 0);
    }).join();
    expected.push_back(tid);
    recorder.records().thread_ended(thread_pointer, tid);
  }
  recorder.unpatch();
  std::vector<std::vector<pid_t>> seen(64);
  recorder.read_all([&](const Record& record, size_t ring) {
    if (record.kind == Kind::thread) seen[ring].push_back(record.tid);
  });
  std::vector<pid_t> all;
  for (const auto& ring : seen) all.insert(all.end(), ring.begin(), ring.end());
  std::sort(all.begin(), all.end());
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(all, expected);
}

uint64_t own_thread_pointer() {
  uint64_t value = 0;
  asm volatile("mov %%fs:0, %0" : "=r"(value));
  return value;
}

TEST(Recorder, WhileAThreadsPointerIsLentNothingIsRecorded) {
  for (bool known : {false, true}) {
    InProcessRecorder recorder(Setting{agent::Mode::count}, {{entry_of(rt_add)}});
    recorder.patch();
    if (known) rt_add(0, 0);
    const uint64_t before = counted_calls(recorder.records())[0].entered;
    recorder.records().mute(own_thread_pointer(), gettid());
    rt_add(0, 0);
    recorder.records().unmute(own_thread_pointer());
    const uint64_t meanwhile = counted_calls(recorder.records())[0].entered;
    rt_add(0, 0);
    recorder.unpatch();
    EXPECT_EQ(meanwhile, before);
    EXPECT_EQ(counted_calls(recorder.records())[0].entered, before + 1);
  }
}

TEST(Recorder, AThreadThatBeginsDoesNotInheritThatOfAnother) {
  InProcessRecorder recorder(Setting{}, {{entry_of(rt_add)}});
  recorder.patch();
  rt_add(0, 0);
  recorder.records().thread_begins(own_thread_pointer());
  rt_add(0, 0);
  recorder.unpatch();
  unsigned threads = 0;
  recorder.read_all([&](const Record& record, size_t) { threads += record.kind == Kind::thread; });
  EXPECT_EQ(threads, 2u);
}

TEST(Recorder, TimeForWhichTheTracerHoldsAThreadIsNoCalls) {
  InProcessRecorder recorder(Setting{agent::Mode::count}, {{entry_of(rt_outer)}, {entry_of(rt_add)}});
  recorder.patch();
  rt_outer(0, 0);
  constexpr uint64_t kLong = uint64_t{1} << 40;
  // As if it had been held in the middle of a call: what is open then began so much later.
  recorder.records().held(own_thread_pointer(), kLong);
  rt_outer(0, 0);
  recorder.unpatch();
  const auto calls = counted_calls(recorder.records());
  EXPECT_EQ(calls[0].returned, 2u);
  EXPECT_LT(calls[0].greatest, kLong);
}

// What copying and waiting for room take is in `held`, so that the time between two records less what was
// held between them is the function's.
TEST(Recorder, TimeStandsStillWhileItCopiesOrWaits) {
  constexpr uint64_t kShare = 1000;
  Setting setting;
  setting.ring_bytes = agent::kLeastRing;
  InProcessRecorder recorder(setting, {{entry_of(rt_add)}, {entry_of(rt_string), string_plan()}});
  recorder.control().share_inside = kShare;
  recorder.patch();
  std::atomic<bool> done = false;
  std::jthread reader([&] {
    while (!done) recorder.read_all([](const Record&, size_t) {});
  });
  for (unsigned i = 0; i < 20'000; ++i) rt_add(i, i);
  const uint64_t slot = recorder.records().used().at(0), before = recorder.records().slot(slot).held;
  EXPECT_GE(before, 20'000 * kShare);
  const std::string text(30, 'x');
  rt_string(text.c_str(), 3);
  done = true;
  reader.join();
  EXPECT_GE(recorder.records().slot(slot).held, before + kShare);
  recorder.unpatch();
}

TEST(Recorder, CountsInPlaceWithoutRecords) {
  InProcessRecorder recorder(Setting{agent::Mode::count},
                             {{entry_of(rt_outer)}, {entry_of(rt_add)}, {entry_of(rt_halve)}});
  recorder.patch();
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < 4; ++i)
    threads.emplace_back([] {
      for (unsigned n = 0; n < 10'000; ++n) rt_outer(n, 0);
    });
  threads.clear();
  recorder.unpatch();
  auto calls = counted_calls(recorder.records());
  ASSERT_GE(calls.size(), 3u);
  EXPECT_EQ(calls[2].entered, 0u);
  EXPECT_TRUE(calls[2].durations.empty()) << "thousands that are never called would each have a table";
  calls.resize(2);
  for (const CountedCalls& one : calls) {
    EXPECT_EQ(one.entered, 40'000u);
    EXPECT_EQ(one.returned, 40'000u);
    uint64_t durations = 0;
    for (uint64_t count : one.durations) durations += count;
    EXPECT_EQ(durations, 40'000u);
    EXPECT_GE(one.total, one.inner);
    EXPECT_EQ(one.recursive, 0u);
  }
  EXPECT_GT(calls[0].inner, 0u);
  EXPECT_EQ(calls[1].inner, 0u);
  recorder.read_all([](const Record&, size_t) { ADD_FAILURE(); });
}

}  // namespace
}  // namespace rtrace::mech::recorder_test
