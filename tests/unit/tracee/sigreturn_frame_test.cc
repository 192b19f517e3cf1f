#include "rtrace/tracee/remote_call.h"

#include <gmock/gmock.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

#include "tracee/register_target.h"

namespace rtrace::tracee::sigreturn_frame_test {
namespace {

using tests::Gadget;
using tests::kBlocked;
using tests::Looping;
using tests::show;

bool to_syscall_stop(pid_t tid) {
  if (resume_to_syscall(tid) == Alive::gone) return false;
  const auto event = consume(tid, Block::yes);
  return event && std::holds_alternative<SyscallStop>(classify(event->status));
}

template <typename T>
T at(const std::vector<std::byte>& bytes, size_t offset) {
  T value{};
  if (offset + sizeof value <= bytes.size()) std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

// asm/sigframe.h, struct rt_sigframe: pretcode, then struct ucontext, from which these are counted.
constexpr size_t kContext = 8, kGeneral = kContext + 40, kMask = kGeneral + 256, kFpstate = kGeneral + 184;

TEST(SigreturnFrame, RegistersLieInTheKernelsOrder) {
  arch::Regs regs;
  auto& r = regs.raw;
  r.r8 = 8, r.r9 = 9, r.r10 = 10, r.r11 = 11, r.r12 = 12, r.r13 = 13, r.r14 = 14, r.r15 = 15;
  r.rdi = 16, r.rsi = 17, r.rbp = 18, r.rbx = 19, r.rdx = 20, r.rax = 21, r.rcx = 22, r.rsp = 23, r.rip = 24;
  r.eflags = 0x246, r.cs = 0x33, r.ss = 0x2b;
  const auto frame = make_sigreturn_frame(VirtAddr{0x7fff0000 - 8}, regs, 0xabcdef, {});
  for (uint64_t i = 8; i <= 24; ++i) EXPECT_EQ(at<uint64_t>(frame, kGeneral + (i - 8) * 8), i) << i;
  EXPECT_EQ(at<uint64_t>(frame, kGeneral + 17 * 8), 0x246u);
  EXPECT_EQ(at<uint16_t>(frame, kGeneral + 18 * 8), 0x33u);
  EXPECT_EQ(at<uint16_t>(frame, kGeneral + 18 * 8 + 6), 0x2bu);
  EXPECT_EQ(at<uint64_t>(frame, kMask), 0xabcdefu);
  EXPECT_EQ(at<uint64_t>(frame, kFpstate), 0u) << "without extended state there is no pointer to it";
  EXPECT_EQ(at<uint64_t>(frame, kContext) & 1, 0u) << "UC_FP_XSTATE";
  const auto alternate_flags = at<int32_t>(frame, kContext + 24);
  EXPECT_NE(alternate_flags, 0);
  EXPECT_NE(alternate_flags, SS_DISABLE);
}

TEST(SigreturnFrame, ExtendedStateIsAlignedAndBetweenItsMagicWords) {
  std::vector<std::byte> xstate(832);  // x87, SSE and AVX
  const uint64_t features = 7;
  std::memcpy(xstate.data() + 464, &features, sizeof features);
  std::memcpy(xstate.data() + 512, &features, sizeof features);
  xstate[160] = std::byte{0x5a};  // xmm0
  xstate[576] = std::byte{0xa5};  // the upper half of ymm0
  const VirtAddr where{0x7fff0000 - 8};
  const auto frame = make_sigreturn_frame(where, {}, 0, xstate);
  const uint64_t pointer = at<uint64_t>(frame, kFpstate);
  EXPECT_EQ(pointer % 64, 0u) << "XRSTOR faults otherwise";
  ASSERT_GE(pointer, where.value + kMask + 8);
  const size_t state = pointer - where.value;
  ASSERT_GE(frame.size(), state + 576 + 4);
  EXPECT_EQ(at<uint64_t>(frame, kContext) & 1, 1u) << "UC_FP_XSTATE";
  EXPECT_EQ(at<uint32_t>(frame, state + 464), 0x46505853u) << "FP_XSTATE_MAGIC1";
  const auto extended = at<uint32_t>(frame, state + 468), size = at<uint32_t>(frame, state + 480);
  EXPECT_EQ(at<uint64_t>(frame, state + 472), features);
  EXPECT_EQ(extended, size + 4);
  ASSERT_EQ(frame.size(), state + extended);
  EXPECT_EQ(at<uint32_t>(frame, state + size), 0x46505845u) << "FP_XSTATE_MAGIC2";
  EXPECT_EQ(at<uint8_t>(frame, state + 160), 0x5a);
  if (__builtin_cpu_supports("avx")) {
    EXPECT_EQ(at<uint8_t>(frame, state + 576), 0xa5);
  }
}

TEST(SigreturnFrame, TheKernelRestoresAllOfAThreadFromIt) {
  const Gadget gadget;
  Looping target;
  const pid_t tid = target.pid();
  ASSERT_TRUE(tests::seize_and_stop(tid));
  const ProcessMemory memory(tid);
  const auto regs = registers(tid);
  const auto mask = signal_mask(tid);
  const auto xstate = extended_state(tid);
  ASSERT_TRUE(regs && mask && xstate);
  const VirtAddr where{((regs->raw.rsp - 20000) & ~uint64_t{63}) - 8};
  ASSERT_EQ(memory.write(where, make_sigreturn_frame(where, *regs, *mask, *xstate)), 0);

  // Everything else that the frame is to bring back is made wrong.
  std::vector<std::byte> wrong_state = *xstate;
  for (size_t i = 160; i < 416; ++i) wrong_state[i] ^= std::byte{0xff};  // xmm0-15
  iovec area{wrong_state.data(), wrong_state.size()};
  ASSERT_EQ(ptrace(PTRACE_SETREGSET, tid, reinterpret_cast<void*>(uint64_t{0x202}), &area),
            0);  // NT_X86_XSTATE
  ASSERT_EQ(set_signal_mask(tid, ~uint64_t{0}), Alive::yes);
  arch::Regs wrong = *regs;
  for (auto* field : {&wrong.raw.rax, &wrong.raw.rbx, &wrong.raw.rcx, &wrong.raw.rdx, &wrong.raw.rsi,
                      &wrong.raw.rdi, &wrong.raw.rbp, &wrong.raw.r8, &wrong.raw.r9, &wrong.raw.r10,
                      &wrong.raw.r11, &wrong.raw.r12, &wrong.raw.r13, &wrong.raw.r14, &wrong.raw.r15})
    *field = 0xdead;
  wrong.raw.eflags = 0x202;
  wrong.raw.orig_rax = ~uint64_t{0};
  wrong.set_pc(gadget.sigreturn());
  wrong.set_sp(where + 8);
  ASSERT_EQ(set_registers(tid, wrong), Alive::yes);
  ASSERT_TRUE(to_syscall_stop(tid));
  ASSERT_EQ(registers(tid)->raw.orig_rax, uint64_t{SYS_rt_sigreturn});
  ASSERT_TRUE(to_syscall_stop(tid));

  EXPECT_EQ(show(*registers(tid)), show(*regs));
  EXPECT_EQ(*signal_mask(tid), kBlocked);
  EXPECT_TRUE(*extended_state(tid) == *xstate);
  ASSERT_EQ(detach(tid), Alive::yes);
  EXPECT_EQ(target.finish(), 0);
}

}  // namespace
}  // namespace rtrace::tracee::sigreturn_frame_test
