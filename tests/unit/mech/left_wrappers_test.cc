#include "../../../src/mech/left_wrappers.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "../../../src/mech/kernel_action.h"
#include "rtrace/agent/recorder.h"
#include "tracee/child.h"

extern "C" {
extern const unsigned char rtrace_test_interrupted[], rtrace_test_restorer[], rtrace_test_restorer_end[];
}

// What a signal finds the thread in; and what handlers return to, in place of the C library's call of
// rt_sigreturn.
asm(R"(
  .pushsection .text
  .globl rtrace_test_interrupted, rtrace_test_restorer, rtrace_test_restorer_end
rtrace_test_interrupted:
  ud2
rtrace_test_restorer:
  pause
  jmp rtrace_test_restorer
rtrace_test_restorer_end:
  .popsection
)");

namespace rtrace::mech::left_wrappers_test {
namespace {

std::vector<std::byte> bytes(std::initializer_list<int> values) {
  std::vector<std::byte> all;
  for (int value : values) all.push_back(static_cast<std::byte>(value));
  return all;
}

// A breakpoint, a function's near jump, and a short one at 0x2010 to a near one at 0x2008.
std::vector<ForeignBytes> found() {
  return {{VirtAddr{0x1000}, bytes({0x55}), bytes({0xcc})},
          {VirtAddr{0x2008}, bytes({0x90, 0x90, 0x90, 0x90, 0x90}), bytes({0xe9, 1, 0, 0, 0})},
          {VirtAddr{0x2010}, bytes({0x48, 0x89}), bytes({0xeb, 0xf6})},
          {VirtAddr{0x3000}, bytes({0x55, 0x53, 0x51, 0x52, 0x50}), bytes({0xe9, 2, 0, 0, 0})}};
}

TEST(LeftWrappers, AJumpThatAShortOneLeadsToIsAHopAndGoesLast) {
  auto all = found();
  order_jumps(all);
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all.back().address, VirtAddr{0x2008});
  for (const ForeignBytes& each : all)
    EXPECT_EQ(each.hop, each.address == VirtAddr{0x2008}) << each.address.value;
}

TEST(LeftWrappers, JumpsAreThoseAtEntries) {
  auto all = found();
  order_jumps(all);
  std::vector<bool> jumps;
  for (const ForeignBytes& each : all) jumps.push_back(is_jump(each));
  EXPECT_EQ(jumps, (std::vector<bool>{false, true, true, false}));
  EXPECT_FALSE(is_jump({VirtAddr{0x1000}, bytes({0x55, 0x53}), bytes({0x0f, 0x05})}));
}

TEST(LeftWrappers, AWordOfTheStackOrThePcLeadsToAHop) {
  Remains remains;
  remains.bytes = found();
  order_jumps(remains.bytes);
  const auto leads = [&](uint64_t pc, std::vector<uint64_t> stack) {
    return leads_to_hop({1, VirtAddr{pc}, 0, std::move(stack)}, remains);
  };
  EXPECT_TRUE(leads(0x2008, {}));
  EXPECT_TRUE(leads(0x5000, {7, 0x2008, 9}));
  EXPECT_FALSE(leads(0x2009, {0x3000, 0x2010, 0x2007}));
}

// A recorder's control mapping in this process, with a function whose frame is borrowed, and where its shared
// memory has been.
class ControlOfOne {
 public:
  explicit ControlOfOne(uint32_t functions) {
    memory_ = mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    auto* bytes = static_cast<std::byte*>(memory_);
    agent::ControlHead head{};
    head.notes_count = 1;
    agent::FunctionPlan plan{};
    plan.flags = agent::FunctionPlan::kBorrowedFrame;
    agent::Control control{};
    control.functions = functions;
    std::memcpy(bytes, &head, sizeof head);
    std::memcpy(bytes + agent::kPlansOffset, &plan, sizeof plan);
    std::memcpy(bytes + agent::kControlOffset, &control, sizeof control);
    void* gone = mmap(nullptr, kSize, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(gone, kSize);
    const auto shared = reinterpret_cast<uint64_t>(gone);
    remains_.recorders.push_back(
        {VirtAddr{reinterpret_cast<uint64_t>(memory_)}, {VirtAddr{shared}, VirtAddr{shared + kSize}}});
  }
  ~ControlOfOne() { munmap(memory_, kSize); }
  ControlOfOne(const ControlOfOne&) = delete;
  ControlOfOne& operator=(const ControlOfOne&) = delete;

  bool has_open_calls() const { return mech::has_open_calls(tracee::ProcessMemory(getpid()), remains_); }

 private:
  static constexpr size_t kSize = 1 << 16;
  void* memory_ = nullptr;
  Remains remains_;
};

VirtAddr address_of(const unsigned char* code) {
  return {reinterpret_cast<uint64_t>(code)};
}

void handle(int signal, void (*handler)(int), uint64_t flags) {
  constexpr uint64_t kRestorerFlag = 0x04000000;  // SA_RESTORER
  const KernelAction action{reinterpret_cast<uint64_t>(handler), flags | kRestorerFlag,
                            address_of(rtrace_test_restorer).value, 0};
  if (syscall(SYS_rt_sigaction, signal, &action, nullptr, sizeof(uint64_t)) != 0) abort();
}

// A thread that a signal has interrupted in `rtrace_test_interrupted`, and whose last handler is about to
// end.
class InHandler {
 public:
  enum class Handlers : uint8_t { one, one_more_on_another_stack };
  explicit InHandler(Handlers handlers) : child_([this, handlers] { return run(handlers); }) {}

  // Stops it once it has come into `where`.
  std::optional<StoppedThread> look(Range where) const {
    const pid_t pid = child_.pid();
    if (!about_to_end_.wait() || !tests::seize_and_stop(pid)) return std::nullopt;
    for (;;) {
      const auto regs = tracee::registers(pid);
      if (!regs) return std::nullopt;
      if (where.contains(regs->pc())) return look_at(pid, tracee::ProcessMemory(pid), tracee::read_maps(pid));
      (void)tracee::resume(pid);
      (void)tracee::interrupt(pid);
      if (!tracee::consume(pid, tracee::Block::yes)) return std::nullopt;
    }
  }

 private:
  int run(Handlers handlers) const {
    static const tests::Pipe* about_to_end;
    about_to_end = &about_to_end_;
    static std::byte other_stack[1 << 16];
    const stack_t stack{other_stack, 0, sizeof other_stack};
    if (sigaltstack(&stack, nullptr) != 0) abort();
    const auto last = [](int) { about_to_end->signal(); };
    handle(SIGUSR1, last, SA_ONSTACK);
    if (handlers == Handlers::one)
      handle(SIGILL, last, 0);
    else
      handle(
          SIGILL, [](int) { raise(SIGUSR1); }, 0);
    reinterpret_cast<void (*)()>(address_of(rtrace_test_interrupted).value)();
    return 1;
  }

  tests::Pipe about_to_end_;
  tests::Child child_;
};

const Range kRestorer{address_of(rtrace_test_restorer), address_of(rtrace_test_restorer_end)};
bool is_interrupted_code(VirtAddr pc) {
  return Range{address_of(rtrace_test_interrupted), kRestorer.begin}.contains(pc);
}

TEST(LeftWrappers, AHandlerThatHasReturnedToWhatCallsSigreturnStillReturnsToWhatItInterrupted) {
  const InHandler child(InHandler::Handlers::one);
  const auto thread = child.look(kRestorer);
  ASSERT_TRUE(thread);
  EXPECT_TRUE(handler_returns_to(*thread, is_interrupted_code));
  EXPECT_FALSE(handler_returns_to(*thread, [](VirtAddr pc) { return kRestorer.contains(pc); }));
}

TEST(LeftWrappers, AHandlerOnAStackOfItsOwnHasAnotherBelowIt) {
  const InHandler child(InHandler::Handlers::one_more_on_another_stack);
  const auto thread = child.look(kRestorer);
  ASSERT_TRUE(thread);
  EXPECT_TRUE(handler_returns_to(*thread, is_interrupted_code));
}

TEST(LeftWrappers, WhereTheSharedMemoryIsGoneNoCallIsOpen) {
  EXPECT_FALSE(ControlOfOne(1).has_open_calls());
  EXPECT_TRUE(ControlOfOne(0).has_open_calls()) << "in a fork child nothing tells";
}

}  // namespace
}  // namespace rtrace::mech::left_wrappers_test
