#include "rtrace/tracee/interrupted_syscall.h"

#include <gmock/gmock.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstring>

namespace rtrace::tracee::interrupted_syscall_test {
namespace {

constexpr uint64_t kBehind = 0x401002, kInstruction = 0x401000;
// include/linux/errno.h
constexpr int kRestartSys = 512, kRestartNoIntr = 513, kRestartNoHand = 514, kRestartBlock = 516;

arch::Regs in_syscall(uint64_t number, int64_t result) {
  arch::Regs regs;
  regs.raw.orig_rax = number;
  regs.raw.rax = static_cast<uint64_t>(result);
  regs.raw.rip = kBehind;
  regs.raw.rdi = 3, regs.raw.rsp = 0x7000, regs.raw.rcx = kBehind, regs.raw.r11 = 0x246;
  return regs;
}

bool same(const arch::Regs& a, const arch::Regs& b) {
  return std::memcmp(&a.raw, &b.raw, sizeof a.raw) == 0;
}

constexpr uint64_t kNone = ~uint64_t{0};

TEST(Rewind, ACallThatWasInterruptedIsMadeAgain) {
  struct Row {
    uint64_t number;
    int64_t result;
    uint64_t again;  // the number in rax afterwards
  };
  const Row rows[] = {
      {SYS_epoll_wait, -EINTR, SYS_epoll_wait},
      {SYS_read, -kRestartSys, SYS_read},  // number 0: rax is 0 then
      {SYS_futex, -kRestartNoIntr, SYS_futex},
      {SYS_rt_sigsuspend, -kRestartNoHand, SYS_rt_sigsuspend},
      {SYS_nanosleep, -kRestartBlock, SYS_restart_syscall},
      {SYS_poll, -kRestartBlock, SYS_restart_syscall},
  };
  for (const Row& row : rows) {
    const arch::Regs before = in_syscall(row.number, row.result);
    arch::Regs regs = before;
    const auto interrupted = rewind_interrupted_syscall(regs, Restart::by_block);
    ASSERT_TRUE(interrupted) << row.number;
    EXPECT_EQ(*interrupted, (InterruptedSyscall{VirtAddr{kInstruction}, before.raw.rax, row.number}));
    arch::Regs expected = before;
    expected.raw.rip = kInstruction;
    expected.raw.rax = row.again;
    expected.raw.orig_rax = kNone;
    EXPECT_TRUE(same(regs, expected)) << row.number;

    EXPECT_TRUE(undo_rewind(*interrupted, regs));
    EXPECT_TRUE(same(regs, before)) << row.number;
  }
}

TEST(Rewind, NothingElseIsTouched) {
  struct Row {
    uint64_t number;
    int64_t result;
  };
  const Row rows[] = {
      {kNone, -EINTR},         // not in a system call
      {kNone, -kRestartSys},   //
      {SYS_read, 0},           // it has come to its end
      {SYS_read, 512},         //
      {SYS_read, -EAGAIN},     //
      {SYS_read, -515},        // ENOIOCTLCMD, which never gets here
      {SYS_read, -517},        // EPROBE_DEFER
      {SYS_getpid, 4},         // EINTR, but positive
      {SYS_write, INT64_MIN},  //
  };
  for (const Row& row : rows) {
    const arch::Regs before = in_syscall(row.number, row.result);
    arch::Regs regs = before;
    EXPECT_FALSE(rewind_interrupted_syscall(regs, Restart::by_block)) << row.number << " " << row.result;
    EXPECT_TRUE(same(regs, before)) << row.number << " " << row.result;
  }
}

TEST(UndoRewind, IsForAThreadThatStillStandsAtTheInstruction) {
  arch::Regs regs = in_syscall(SYS_epoll_wait, -EINTR);
  const auto interrupted = rewind_interrupted_syscall(regs, Restart::by_block);
  ASSERT_TRUE(interrupted);
  for (uint64_t pc : {kInstruction - 1, kInstruction + 1, kBehind, uint64_t{0}}) {
    arch::Regs elsewhere = regs;
    elsewhere.raw.rip = pc;
    const arch::Regs before = elsewhere;
    EXPECT_FALSE(undo_rewind(*interrupted, elsewhere)) << std::hex << pc;
    EXPECT_TRUE(same(elsewhere, before)) << std::hex << pc;
  }
}

TEST(Rewind, ACallThatIsNotForItsBlockBeginsAnew) {
  const arch::Regs before = in_syscall(SYS_poll, -kRestartBlock);
  arch::Regs regs = before;
  const auto interrupted = rewind_interrupted_syscall(regs, Restart::anew);
  ASSERT_TRUE(interrupted);
  EXPECT_EQ(regs.raw.rax, uint64_t{SYS_poll});
  EXPECT_EQ(regs.raw.rip, kInstruction);
  EXPECT_TRUE(undo_rewind(*interrupted, regs));
  EXPECT_TRUE(same(regs, before));
}

TEST(LetKernelRestart, OfACallThatIsNotForItsBlockToo) {
  arch::Regs regs = in_syscall(SYS_nanosleep, -kRestartBlock);
  const arch::Regs before = regs;
  EXPECT_FALSE(let_kernel_restart(regs, Restart::by_block));
  EXPECT_TRUE(same(regs, before));
  EXPECT_TRUE(let_kernel_restart(regs, Restart::anew));
  EXPECT_EQ(regs.raw.rax, static_cast<uint64_t>(-kRestartNoHand));
  regs = in_syscall(kNone, -kRestartBlock);
  EXPECT_FALSE(let_kernel_restart(regs, Restart::anew));
}

TEST(LetKernelRestart, MakesAnInterruptionTheKernelsToDecide) {
  arch::Regs regs = in_syscall(SYS_epoll_wait, -EINTR);
  arch::Regs expected = regs;
  expected.raw.rax = static_cast<uint64_t>(-kRestartNoHand);
  EXPECT_TRUE(let_kernel_restart(regs, Restart::by_block));
  EXPECT_TRUE(same(regs, expected));
}

TEST(LetKernelRestart, LeavesEverythingElseAlone) {
  for (arch::Regs regs : {in_syscall(SYS_read, -kRestartSys), in_syscall(SYS_read, 5),
                          in_syscall(SYS_read, -EIO), in_syscall(kNone, -EINTR)}) {
    const arch::Regs before = regs;
    EXPECT_FALSE(let_kernel_restart(regs, Restart::by_block));
    EXPECT_TRUE(same(regs, before));
  }
}

}  // namespace
}  // namespace rtrace::tracee::interrupted_syscall_test
