// Signals in the midst of the recorder. What a tracer does at each signal-delivery-stop the handlers do here.
#include <gtest/gtest.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>

#include <csetjmp>
#include <csignal>
#include <map>
#include <thread>

#include "mech/in_process_recorder.h"
#include "rtrace/arch/placement.h"

// rt_stepped(a, b) runs rt_traced(a, b) with the trap flag set, so that each instruction ends with a SIGTRAP.
asm(R"(
  .text
  .balign 16
  .globl rt_traced
  .type rt_traced, @function
rt_traced:
  .byte 0x0f, 0x1f, 0x44, 0x00, 0x00
  push %rdi
  push %rsi
  sub $8, %rsp
  call rt_inside
  add $8, %rsp
  pop %rsi
  pop %rdi
  lea (%rdi,%rsi), %rax
  ret
  .globl rt_stepped
rt_stepped:
  sub $8, %rsp
  pushfq
  orl $0x100, (%rsp)
  popfq
  call rt_traced
  pushfq
  andl $0xfffffeff, (%rsp)
  popfq
  add $8, %rsp
  ret
)");

extern "C" {
uint64_t rt_traced(uint64_t, uint64_t);
uint64_t rt_stepped(uint64_t, uint64_t);
void rt_inside();
}

namespace rtrace::mech::recorder_signals_test {
namespace {

constexpr uint64_t kInner = 7'000'000;  // first argument of calls made by handlers

// An instruction of blob or stub, before or after the function has run.
enum class Half : uint8_t { before, after };
using Step = std::pair<Half, uint64_t>;

// What the handlers need to know; a handler has no other way to learn it.
struct Scene {
  const agent::Blob* blob = nullptr;
  Range code;
  Half half = Half::before;
  std::vector<Step>* steps = nullptr;  // to be filled
  Step stop_at;
  uint8_t displaced = 0;
  unsigned restarts = 0, handled = 0;
  bool jump = false;
  sigjmp_buf away;
  InProcessRecorder* recorder = nullptr;
  bool in_child = false;
  std::vector<uint64_t> lost;  // where a forked child did not live
};
Scene scene;

void write_byte(uint64_t address, uint8_t byte) {
  const int memory = open("/proc/self/mem", O_WRONLY | O_CLOEXEC);
  EXPECT_EQ(pwrite(memory, &byte, 1, static_cast<off_t>(address)), 1);
  close(memory);
}

void plant_if(Half half) {
  if (scene.stop_at.second == 0 || scene.stop_at.first != half) return;
  scene.displaced = *reinterpret_cast<const uint8_t*>(scene.stop_at.second);
  write_byte(scene.stop_at.second, 0xcc);
}

void restart_append(void* frame) {
  auto& rip = static_cast<ucontext_t*>(frame)->uc_mcontext.gregs[REG_RIP];
  const uint64_t offset = static_cast<uint64_t>(rip) - scene.code.begin.value;
  for (const auto& append : scene.blob->appends) {
    if (!append.holds(offset)) continue;
    rip = static_cast<greg_t>(scene.code.begin.value + append.again);
    ++scene.restarts;
  }
}

void on_step(void* frame) {
  const auto rip = static_cast<uint64_t>(static_cast<ucontext_t*>(frame)->uc_mcontext.gregs[REG_RIP]);
  const Step step{scene.half, rip};
  if (scene.code.contains(VirtAddr{rip}) &&
      std::find(scene.steps->begin(), scene.steps->end(), step) == scene.steps->end())
    scene.steps->push_back(step);
}

// The thread goes on where it was to be stopped, which is answered.
uint64_t take_stop(void* frame) {
  const uint64_t at = std::exchange(scene.stop_at, {}).second;
  write_byte(at, scene.displaced);
  static_cast<ucontext_t*>(frame)->uc_mcontext.gregs[REG_RIP] = static_cast<greg_t>(at);
  return at;
}

void on_trap(int, siginfo_t* info, void* frame) {
  if (info->si_code != SI_KERNEL) return on_step(frame);
  take_stop(frame);
  restart_append(frame);
  rt_traced(kInner, ++scene.handled);
  if (scene.jump) siglongjmp(scene.away, 1);
}

void on_timer(int, siginfo_t*, void* frame) {
  restart_append(frame);
  rt_traced(kInner, ++scene.handled);
}

// No tracer leads the child back, for it is dead; the kernel has emptied the child's Control
// (MADV_WIPEONFORK).
void on_trap_fork(int, siginfo_t* info, void* frame) {
  if (info->si_code != SI_KERNEL) return on_step(frame);
  const uint64_t at = take_stop(frame);
  ++scene.handled;
  const pid_t child = fork();
  scene.in_child = child == 0;
  if (scene.in_child) scene.recorder->control() = {};
  int status = 0;
  if (child > 0 && (waitpid(child, &status, 0) != child || status != 0)) scene.lost.push_back(at);
}

// A child that is followed: it has been given memory of its own, and Control again, before it runs.
void on_trap_follow(int, siginfo_t* info, void* frame) {
  if (info->si_code != SI_KERNEL) return on_step(frame);
  const uint64_t at = take_stop(frame);
  restart_append(frame);
  ++scene.handled;
  const SharedRecords records = scene.recorder->records();
  const uint64_t thread = scene.recorder->thread_pointer();
  const auto state = records.state_of(thread, 1);
  const pid_t child = fork();
  scene.in_child = child == 0;
  if (scene.in_child) {
    alarm(10);  // it must not turn round and round
    void* memory = &records.header();
    const uint64_t size = records.size().layout().size;
    mmap(memory, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    records.header().owner = 1;
    if (state) records.begin_from(thread, *state);
  }
  int status = 0;
  if (child > 0 && (waitpid(child, &status, 0) != child || status != 0)) scene.lost.push_back(at);
}

class Signals : public testing::Test {
 protected:
  void handle(int signal, void (*handler)(int, siginfo_t*, void*)) {
    struct sigaction action {};
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    signal_ = signal;
    sigaction(signal, &action, &before_);
  }
  ~Signals() override { sigaction(signal_, &before_, nullptr); }
  static void enter_scene(const InProcessRecorder& recorder) {
    scene = {};
    scene.blob = &recorder.blob();
    scene.code = recorder.code();
  }
  // All that a call passes through of blob and stub.
  static std::vector<Step> steps_of_a_call(uint64_t first = 0) {
    std::vector<Step> steps;
    scene.steps = &steps;
    scene.half = Half::before;
    rt_stepped(first, 0);
    return steps;
  }
  // A call that meets a signal at the step.
  static uint64_t call_through(const Step& step, uint64_t first, uint64_t second) {
    scene.stop_at = step;
    scene.half = Half::before;
    plant_if(Half::before);
    const uint64_t sum = rt_traced(first, second);
    // Not every call takes each way.
    const uint64_t left = std::exchange(scene.stop_at, {}).second;
    if (left != 0) write_byte(left, scene.displaced);
    return sum;
  }

  static void run_after_each_instruction();
  static void fork_after_each_instruction(const InProcessRecorder::Setting& setting,
                                          const std::vector<InProcessRecorder::Function>& functions,
                                          uint32_t owner);

 private:
  int signal_ = SIGTRAP;
  struct sigaction before_ {};
};

// By first and second argument: how often entered and returned, with no return before its entry.
struct Seen {
  unsigned entered = 0, returned = 0;
};
using Calls = std::map<std::pair<uint64_t, uint64_t>, Seen>;

Calls read_calls(InProcessRecorder& recorder) {
  Calls calls;
  std::map<uint64_t, std::pair<uint64_t, uint64_t>> open;
  recorder.read_all([&](const Record& record, size_t) {
    ASSERT_NE(record.kind, Record::Kind::broken);
    ASSERT_NE(record.kind, Record::Kind::lost);
    if (record.kind == Record::Kind::entered) {
      open[record.call] = {record.arguments[0], record.arguments[1]};
      ++calls[open[record.call]].entered;
    } else if (record.kind == Record::Kind::returned) {
      ASSERT_TRUE(open.contains(record.call));
      ASSERT_EQ(record.result, open[record.call].first + open[record.call].second);
      ++calls[open[record.call]].returned;
    }
  });
  return calls;
}

using Setting = InProcessRecorder::Setting;

std::vector<InProcessRecorder::Function> traced(uint8_t flags = 0, uint16_t passed_bytes = 0) {
  InProcessRecorder::Function function{reinterpret_cast<const void*>(rt_traced)};
  function.plan.flags = flags;
  if (flags == agent::FunctionPlan::kCallerWords) function.plan.entry_words = agent::kAllEntryWords;
  function.plan.passed.bytes = passed_bytes;
  return {function};
}

// At a place of the stack where what lies above a call is in the call's own page, from whatever depth it is
// made: which pages can be read is asked at others, and takes instructions of its own.
template <typename Work>
__attribute__((noinline)) void amid_a_page(Work work) {
  constexpr uint64_t kPage = 4096,
                     kBegin = 3040;  // that far into the page; what is called from here on takes less
  const auto here = reinterpret_cast<uint64_t>(__builtin_frame_address(0));
  auto* volatile room = static_cast<char*>(__builtin_alloca((here - kBegin) % kPage + 1));
  *room = 0;
  work();
}

// From the jump at the function's entry to the return to the caller; and again with records that are not for
// quick.S, and with records that have pieces.
void Signals::run_after_each_instruction() {
  constexpr uint8_t kPieces = agent::FunctionPlan::kVectors | agent::FunctionPlan::kSecondResult;
  for (const uint8_t flags : {uint8_t{0}, uint8_t{agent::FunctionPlan::kCallerWords}, kPieces}) {
    InProcessRecorder recorder(Setting{}, traced(flags));  // its ring's end is never reached
    recorder.patch();
    rt_traced(0, 0);  // which claims the slot
    enter_scene(recorder);
    const std::vector<Step> steps = steps_of_a_call();
    read_calls(recorder);
    for (const Step& step : steps) {
      EXPECT_EQ(call_through(step, 1, step.second), 1 + step.second);
      const Calls calls = read_calls(recorder);
      ASSERT_EQ(calls.size(), 2u) << std::hex << step.second - scene.code.begin.value;
      for (const auto& [arguments, seen] : calls) {
        ASSERT_EQ(seen.entered, 1u) << std::hex << step.second;
        ASSERT_EQ(seen.returned, 1u) << std::hex << step.second;
      }
    }
    recorder.unpatch();
    EXPECT_EQ(scene.handled, steps.size());
    EXPECT_GT(scene.handled, 120u);
    EXPECT_GT(scene.restarts, 40u);
  }
}

TEST_F(Signals, AHandlerThatRecordsMayRunAfterEachInstruction) {
  handle(SIGTRAP, on_trap);
  amid_a_page(run_after_each_instruction);
}

TEST_F(Signals, AHandlerMayInterruptTheFirstCallOfAThread) {
  handle(SIGTRAP, on_trap);
  std::vector<Step> steps;
  for (size_t at = 0; at <= steps.size(); ++at) {
    InProcessRecorder recorder(Setting{.ring_bytes = agent::kLeastRing}, traced());
    recorder.patch();
    enter_scene(recorder);
    if (at == 0) {
      steps = steps_of_a_call();
      // Each recorder has its code at a place of its own.
      for (Step& step : steps) step.second -= scene.code.begin.value;
      recorder.unpatch();
      continue;
    }
    const Step& step = steps[at - 1];
    call_through({step.first, scene.code.begin.value + step.second}, 1, at);
    recorder.unpatch();
    const Calls calls = read_calls(recorder);
    ASSERT_EQ(calls.size(), 2u) << std::hex << step.second;
    for (const auto& [arguments, seen] : calls)
      ASSERT_EQ(seen.entered + seen.returned, 2u) << std::hex << step.second;
  }
  EXPECT_GT(steps.size(), 200u);
}

TEST_F(Signals, AHandlerMayLeaveTheRecorderByALongjmpAnywhere) {
  handle(SIGTRAP, on_trap);
  InProcessRecorder recorder(Setting{}, traced());
  recorder.patch();
  rt_traced(0, 0);
  enter_scene(recorder);
  const std::vector<Step> steps = steps_of_a_call();
  read_calls(recorder);
  scene.jump = true;
  for (const Step& step : steps) {
    if (sigsetjmp(scene.away, 1) == 0) call_through(step, 1, 0);
    rt_traced(2, step.second);
    const Calls calls = read_calls(recorder);
    ASSERT_EQ(calls.count({2, step.second}), 1u) << std::hex << step.second;
    ASSERT_EQ(calls.at({2, step.second}).returned, 1u) << std::hex << step.second;
    ASSERT_EQ(calls.count({kInner, scene.handled}), 1u) << std::hex << step.second;
  }
  recorder.unpatch();
  EXPECT_EQ(scene.handled, steps.size());
}

TEST_F(Signals, CountsAreExactWhereverAHandlerCountsToo) {
  handle(SIGTRAP, on_trap);
  for (const uint16_t passed_bytes : {uint16_t{0}, uint16_t{16}}) {  // which is not for quick.S
    InProcessRecorder recorder(Setting{agent::Mode::count}, traced(0, passed_bytes));
    recorder.patch();
    rt_traced(0, 0);
    enter_scene(recorder);
    const std::vector<Step> steps = steps_of_a_call();
    for (const Step& step : steps) call_through(step, 1, 0);
    recorder.unpatch();
    const CountedCalls counted = counted_calls(recorder.records())[0];
    EXPECT_GT(scene.handled, 120u);
    EXPECT_EQ(counted.entered, 2 + steps.size() + scene.handled);
    EXPECT_EQ(counted.returned, 2 + steps.size() + scene.handled);
  }
}

// What runs in the tracee has no sanitizer in it, and forks of a process that has take some ten times as
// long.
#ifdef RTRACE_SANITIZED
constexpr size_t kForkStride = 4;
#else
constexpr size_t kForkStride = 1;
#endif

// With a tracer that is dead, or about to be: the child writes to its parent's memory then, which nobody
// reads.
void Signals::fork_after_each_instruction(const Setting& setting,
                                          const std::vector<InProcessRecorder::Function>& functions,
                                          uint32_t owner) {
  static const char kText[] = "what a pointer leads to";
  const auto text = reinterpret_cast<uint64_t>(kText);
  InProcessRecorder recorder(setting, functions);
  recorder.records().know_page(text / arch::kPageSize);
  recorder.patch();
  rt_traced(text, 0);
  recorder.records().header().owner = owner;
  enter_scene(recorder);
  scene.recorder = &recorder;
  const std::vector<Step> steps = steps_of_a_call(text);
  for (size_t at = steps.size() % kForkStride; at < steps.size(); at += kForkStride) {
    const uint64_t sum = call_through(steps[at], text, 2);
    if (scene.in_child) _exit(sum == text + 2 && rt_traced(text, 4) == text + 4 ? 0 : 1);
    EXPECT_EQ(sum, text + 2);
  }
  recorder.unpatch();
  EXPECT_GT(scene.handled, 60u / kForkStride);
  std::string lost;
  for (uint64_t at : scene.lost) lost += fmt::format(" {:#x}", at - scene.code.begin.value);
  EXPECT_EQ(lost, "");
}

TEST_F(Signals, AChildForkedInTheMidstOfACountedCallWithoutATracerLives) {
  handle(SIGTRAP, on_trap_fork);
  for (const uint16_t passed_bytes : {uint16_t{0}, uint16_t{16}})  // which is not for quick.S
    fork_after_each_instruction({agent::Mode::count}, traced(0, passed_bytes), agent::kOwnerDied);
}

TEST_F(Signals, AChildForkedInTheMidstOfARecordedCallWithoutATracerLives) {
  handle(SIGTRAP, on_trap_fork);
  constexpr uint8_t kPieces = agent::FunctionPlan::kVectors | agent::FunctionPlan::kSecondResult;
  for (const uint32_t owner : {agent::kOwnerDied, uint32_t{1}}) {
    for (const uint8_t flags : {uint8_t{0}, uint8_t{agent::FunctionPlan::kCallerWords}, kPieces})
      fork_after_each_instruction({}, traced(flags), owner);
    fork_after_each_instruction({}, traced(kPieces, 16), owner);
    std::vector<InProcessRecorder::Function> captures =
        traced(agent::FunctionPlan::kCapturesAtEntry | agent::FunctionPlan::kCapturesAtReturn);
    captures[0].plan.at_entry.count = captures[0].plan.at_return.count = 1;
    captures[0].plan.at_entry.captures[0] = {.length = agent::Capture::Length::string, .bound = 64};
    captures[0].plan.at_return.captures[0] = {.bound = 16};
    fork_after_each_instruction({}, captures, owner);
    // Its ring is full.
    fork_after_each_instruction({.on_full = agent::OnFull::drop, .ring_bytes = agent::kLeastRing},
                                traced(kPieces), owner);
  }
}

TEST_F(Signals, AChildForkedInTheMidstOfARecordedCallGoesOnInMemoryOfItsOwn) {
  handle(SIGTRAP, on_trap_follow);
  constexpr uint8_t kPieces = agent::FunctionPlan::kVectors | agent::FunctionPlan::kSecondResult;
  for (const uint8_t flags : {uint8_t{0}, uint8_t{agent::FunctionPlan::kCallerWords}, kPieces})
    fork_after_each_instruction({}, traced(flags), 1);
}

TEST_F(Signals, AStormOfThemLosesNothing) {
  handle(SIGALRM, on_timer);
  constexpr uint64_t kCalls = 1'000'000;
  InProcessRecorder recorder(Setting{.ring_bytes = agent::kLeastRing}, traced());
  recorder.patch();
  rt_traced(0, 0);
  enter_scene(recorder);
  sigset_t alarm;
  sigemptyset(&alarm);
  sigaddset(&alarm, SIGALRM);
  pthread_sigmask(SIG_BLOCK, &alarm, nullptr);
  std::atomic<bool> done{false};
  uint64_t entered[2] = {}, returned = 0, next = 0;
  std::jthread reader([&] {
    for (bool last = false; !last;) {
      last = done;
      recorder.read_all([&](const Record& record, size_t) {
        ASSERT_NE(record.kind, Record::Kind::broken);
        ASSERT_NE(record.kind, Record::Kind::lost);
        returned += record.kind == Record::Kind::returned;
        if (record.kind != Record::Kind::entered) return;
        const bool inner = record.arguments[0] == kInner;
        ++entered[inner];
        ASSERT_EQ(record.arguments[1], inner ? record.arguments[1] : next++);
      });
    }
  });
  pthread_sigmask(SIG_UNBLOCK, &alarm, nullptr);
  const itimerval often{{0, 50}, {0, 50}}, never{};
  setitimer(ITIMER_REAL, &often, nullptr);
  for (uint64_t n = 1; n <= kCalls; ++n) rt_traced(1, n);
  setitimer(ITIMER_REAL, &never, nullptr);
  done = true;
  reader.join();
  recorder.unpatch();
  EXPECT_EQ(entered[0], kCalls + 1);
  EXPECT_EQ(entered[1], scene.handled);
  EXPECT_EQ(returned, entered[0] + entered[1]);
  EXPECT_GT(scene.handled, 10u);
}

}  // namespace
}  // namespace rtrace::mech::recorder_signals_test

// Called by rt_traced().
extern "C" void rt_inside() {
  using namespace rtrace::mech::recorder_signals_test;
  scene.half = Half::after;
  plant_if(Half::after);
}
