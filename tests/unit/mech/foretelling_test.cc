#include "../../../src/mech/foretelling.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <optional>

#include "rtrace/arch/placement.h"
#include "tracee/child.h"

extern "C" {
int rtrace_foretold_wrapper();
extern const unsigned char rtrace_foretold_word[], rtrace_foretold_push[], rtrace_foretold_movl[];
extern const unsigned char rtrace_foretold_call[], rtrace_foretold_ret[], rtrace_foretold_begin[],
    rtrace_foretold_end[];
}
// As stub.S lays a wrapper's way to its function out: by the call, or without. The one tells 7 on its return.
asm(R"(
  .pushsection .text
  .globl rtrace_foretold_wrapper, rtrace_foretold_word, rtrace_foretold_push, rtrace_foretold_movl
  .globl rtrace_foretold_call, rtrace_foretold_ret, rtrace_foretold_begin, rtrace_foretold_end
  .balign 16
rtrace_foretold_begin:
rtrace_foretold_wrapper:
  lea 1f(%rip), %rax
  push %rax
  lea 2f(%rip), %rax
  mov %rax, -8(%rsp)
  jmp *rtrace_foretold_word(%rip)
rtrace_foretold_word:
  .quad 0
  .byte 0x68
rtrace_foretold_push:
  .long 0
  .byte 0xc7, 0x44, 0x24, 0x04
rtrace_foretold_movl:
  .long 0
  .byte 0xe9
  .long 2f - rtrace_foretold_jumped
rtrace_foretold_jumped:
1:
  add $6, %eax
  ret
2:
  mov $1, %eax
  ret
  .balign 16
rtrace_foretold_end:
rtrace_foretold_call:
  call *-8(%rsp)
rtrace_foretold_ret:
  ret
  .popsection
)");

namespace rtrace::mech::foretelling_test {
namespace {

VirtAddr address_of(const unsigned char* place) {
  return VirtAddr{reinterpret_cast<uint64_t>(place)};
}

class ForetellingTest : public testing::Test {
 protected:
  // Stopped at the call; it ends with what the wrapper answers.
  void SetUp() override {
    child_.emplace([this] { return go_.wait() ? rtrace_foretold_wrapper() : 100; });
    tests::wait_until_in_syscall(pid(), SYS_read);
    ASSERT_TRUE(tests::seize_and_stop(pid()));
    memory_.emplace(pid());
    const uint64_t ret = address_of(rtrace_foretold_ret).value;
    fill(rtrace_foretold_word, call().value);
    fill(rtrace_foretold_push, static_cast<uint32_t>(ret));
    fill(rtrace_foretold_movl, static_cast<uint32_t>(ret >> 32));
  }
  template <typename Value>
  void fill(const unsigned char* place, Value value) {
    ASSERT_EQ(memory_->write_value(address_of(place), value), 0);
  }
  pid_t pid() const { return child_->pid(); }
  VirtAddr pc() const { return tracee::registers(pid())->pc(); }
  static VirtAddr call() { return address_of(rtrace_foretold_call); }
  static VirtAddr way() { return address_of(rtrace_foretold_word) + sizeof(uint64_t); }

  void step_to(VirtAddr place) {
    go_.signal();
    for (int steps = 0; steps < 1'000'000 && pc() != place; ++steps) {
      ASSERT_EQ(tracee::step(pid()), tracee::Alive::yes);
      ASSERT_TRUE(tracee::consume(pid(), tracee::Block::yes));
    }
    ASSERT_EQ(pc(), place);
  }
  bool retire() const {
    const Range code{address_of(rtrace_foretold_begin), address_of(rtrace_foretold_end)};
    StoppedThread thread;
    thread.tid = pid();
    thread.pc = pc();
    return retire_foretelling(*memory_, {&code, 1}, call(), {&thread, 1});
  }
  int end() {
    EXPECT_EQ(tracee::detach(pid()), tracee::Alive::yes);
    return child_->end();
  }

  tests::Pipe go_;
  std::optional<tests::Child> child_;
  std::optional<tracee::ProcessMemory> memory_;
};

TEST_F(ForetellingTest, TheFunctionReturnsBehindTheCall) {
  step_to(call());
  EXPECT_EQ(end(), 7);
}

TEST_F(ForetellingTest, WhoStandsAtTheCallGoesOnWithout) {
  step_to(call());
  ASSERT_TRUE(retire());
  EXPECT_EQ(pc(), way());
  EXPECT_EQ(end(), 7);
}

TEST_F(ForetellingTest, IsRetiredTwiceWhereTwoNotesTellOfIt) {
  step_to(call());
  StoppedThread thread;
  thread.tid = pid();
  thread.pc = call();
  const Range code{address_of(rtrace_foretold_begin), address_of(rtrace_foretold_end)};
  for (int times = 0; times < 2; ++times)
    ASSERT_TRUE(retire_foretelling(*memory_, {&code, 1}, call(), {&thread, 1}));
  EXPECT_EQ(pc(), way());
  EXPECT_EQ(end(), 7);
}

// Its wrapper was led past before we came, and whoever did that died.
TEST_F(ForetellingTest, WhoStandsAtTheCallOfAWrapperThatIsLedPast) {
  step_to(call());
  const uint64_t own_way = way().value;
  ASSERT_EQ(memory_->write_value(address_of(rtrace_foretold_word), own_way), 0);
  ASSERT_TRUE(retire());
  EXPECT_EQ(end(), 7);
}

TEST_F(ForetellingTest, NobodyGoesOnWhereNoWayLeadsThere) {
  step_to(call());
  const Range nothing{call(), call() + kForetellingCall.size()};
  StoppedThread thread;
  thread.tid = pid();
  EXPECT_FALSE(retire_foretelling(*memory_, {&nothing, 1}, call(), {&thread, 1}));
  EXPECT_EQ(end(), 7);
}

}  // namespace
}  // namespace rtrace::mech::foretelling_test
