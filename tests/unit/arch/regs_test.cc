#include "rtrace/arch/regs.h"

#include <gtest/gtest.h>

namespace rtrace::arch::regs_test {
namespace {

Regs numbered() {
  Regs regs;
  regs.raw.rdi = 1, regs.raw.rsi = 2, regs.raw.rdx = 3, regs.raw.rcx = 4, regs.raw.r8 = 5, regs.raw.r9 = 6;
  regs.raw.r10 = 10, regs.raw.rax = 11, regs.raw.rsp = 12, regs.raw.rip = 13;
  return regs;
}

TEST(Regs, IntegerArgumentsInPsAbiOrder) {
  for (unsigned i = 0; i < kIntegerArguments; ++i) EXPECT_EQ(numbered().integer_argument(i), i + 1);
}

TEST(Regs, FourthSyscallArgumentIsInR10) {
  const uint64_t expected[] = {1, 2, 3, 10, 5, 6};
  for (unsigned i = 0; i < kIntegerArguments; ++i) EXPECT_EQ(numbered().syscall_argument(i), expected[i]);
}

TEST(Regs, NamesOfTheRoles) {
  Regs regs = numbered();
  EXPECT_EQ(regs.result(), 11u);
  EXPECT_EQ(regs.sp(), VirtAddr{12});
  EXPECT_EQ(regs.pc(), VirtAddr{13});
  EXPECT_EQ(pc_at_breakpoint(regs), VirtAddr{12});
  regs.set_pc({21});
  regs.set_sp({22});
  EXPECT_EQ(regs.raw.rip, 21u);
  EXPECT_EQ(regs.raw.rsp, 22u);
}

TEST(RegsDeathTest, SeventhArgumentIsNotInARegister) {
  EXPECT_DEATH(numbered().integer_argument(6), "CHECK");
  EXPECT_DEATH(numbered().syscall_argument(6), "CHECK");
}

TEST(Regs, AreEqualButForTheProgramCounter) {
  Regs one, other;
  one.raw.rip = 1, other.raw.rip = 2;
  EXPECT_TRUE(equal_but_pc(one, other));
  other.raw.rsp = 8;
  EXPECT_FALSE(equal_but_pc(one, other));
}

}  // namespace
}  // namespace rtrace::arch::regs_test
