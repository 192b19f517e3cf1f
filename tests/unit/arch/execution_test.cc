// Each shape runs at its original place and in its copies, from the same registers, flags, data and stack,
// and has to leave the same.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <cstring>
#include <set>

#include "arch/arena.h"
#include "arch/instruction_shapes.h"
#include "rtrace/arch/emulate.h"
#include "rtrace/arch/relocate.h"

namespace rtrace::arch::execution_test {
namespace {

class HostMemory : public Memory {
 public:
  size_t read(VirtAddr address, std::span<std::byte> out) const override {
    std::memcpy(out.data(), std::bit_cast<const void*>(address.value), out.size());
    return out.size();
  }
};

class Execution : public testing::Test {
 protected:
  // The copy at `to` from every start. Returns the places where the original ended.
  std::set<uint64_t> compare(Arena& arena, const std::vector<std::byte>& bytes, const OutOfLine& copy,
                             VirtAddr to) {
    std::set<uint64_t> exits;
    for (const CpuState& start : starts(arena)) {
      Outcome wanted = run(arena, start, arena.from());
      exits.insert(wanted.state.exit);
      Outcome got = run(arena, start, to);
      EXPECT_TRUE(got == wanted) << difference(wanted, got) << listing(bytes, arena.from()) << "as\n"
                                 << listing(copy.code, to);
      check_emulation(arena, bytes, start, wanted.state);
      if (HasFailure()) break;
    }
    return exits;
  }

  // Stops the copy at each of its resume points, goes on from there in the original, and must end where the
  // original ends.
  void check_resume_points(Arena& arena, const OutOfLine& copy) {
    for (const ResumePoint& point : copy.points) {
      VirtAddr stop = arena.copy() + 0x200;
      arena.write(arena.copy(), copy.code);
      arena.put_jump(arena.copy() + point.offset, stop);
      arena.put_exit(stop);
      bool reached = false;
      for (const CpuState& start : starts(arena)) {
        Outcome wanted = run(arena, start, arena.from());
        CpuState state = run(arena, start, arena.copy()).state;
        if (state.exit != stop.value + kStub) continue;  // another way through the copy
        reached = true;
        state.gpr[kRsp] += static_cast<uint64_t>(int64_t{point.sp_adjust});
        state.exit = 0;
        state = run_on_cpu(state, point.address.value);
        EXPECT_TRUE(state == wanted.state)
            << "resumed at offset " << unsigned{point.offset} << "\n"
            << difference(wanted, {state, {}}) << listing(copy.code, arena.copy());
      }
      EXPECT_TRUE(reached) << "no run stood at offset " << unsigned{point.offset};
    }
  }

  void check_shape(const Shape& shape, Arena& arena, Arena* far, size_t ways_out) {
    SCOPED_TRACE(shape.text);
    std::vector<std::byte> bytes = arena.place(shape);
    auto near_copy = relocate(bytes, arena.from(), arena.copy());
    ASSERT_TRUE(std::holds_alternative<OutOfLine>(near_copy)) << std::get<Refused>(near_copy).reason;
    arena.write(arena.copy(), std::get<OutOfLine>(near_copy).code);
    EXPECT_EQ(compare(arena, bytes, std::get<OutOfLine>(near_copy), arena.copy()).size(), ways_out);
    check_resume_points(arena, std::get<OutOfLine>(near_copy));
    if (far == nullptr) return;

    auto far_copy = relocate(bytes, arena.from(), far->copy());
    bool has_operand = std::string_view(shape.code).find("data") != std::string_view::npos;
    ASSERT_EQ(std::holds_alternative<Refused>(far_copy), has_operand);
    if (has_operand) return;
    far->write(far->copy(), std::get<OutOfLine>(far_copy).code);
    EXPECT_EQ(compare(arena, bytes, std::get<OutOfLine>(far_copy), far->copy()).size(), ways_out);
  }

  // In the upper part of the address space, where a return address does not sign-extend from 32 bits, and in
  // the lower, where it does.
  void check_shapes(std::span<const Shape> shapes, size_t ways_out) {
    Arena high(0x7a0000000000), low(0x20000000);
    ASSERT_TRUE(high.mapped() && low.mapped());
    for (const Shape& shape : shapes) {
      bool one_way = std::string_view(shape.text).find("jmp") != std::string_view::npos;
      check_shape(shape, high, &low, one_way ? 1 : ways_out);
      check_shape(shape, low, nullptr, one_way ? 1 : ways_out);
      if (HasFatalFailure()) return;
    }
  }

 private:
  // Where the instruction can be emulated, that must do what the processor did.
  void check_emulation(Arena& arena, const std::vector<std::byte>& bytes, const CpuState& start,
                       const CpuState& wanted) {
    auto emulation = emulation_for(bytes, arena.from());
    if (!emulation) return;
    arena.reset();
    Regs regs;
    regs.set_sp({start.gpr[kRsp]});
    regs.set_pc(arena.from());
    regs.raw.eflags = start.flags;
    ASSERT_TRUE(emulate(*emulation, arena.from(), regs, HostMemory()));
    EXPECT_EQ(regs.pc().value, wanted.exit - kStub);
    EXPECT_EQ(regs.sp().value, wanted.gpr[kRsp]);
    EXPECT_EQ(regs.raw.eflags, wanted.flags);
  }
};

TEST_F(Execution, CopiesOfWhatFallsThroughDoWhatTheOriginalDoes) {
  check_shapes(kFallingThrough, 1);
}

TEST_F(Execution, CopiesOfVectorAndBmiInstructionsDoWhatTheOriginalDoes) {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("bmi2"))
    GTEST_SKIP() << "the processor has no x86-64-v3";
  check_shapes(kNeedingX86_64V3, 1);
}

TEST_F(Execution, CopiesOfBranchesAreTakenWhenTheOriginalIs) {
  check_shapes(kBranches, 2);
}

TEST_F(Execution, CopiesOfTransfersLeadWhereTheOriginalLeads) {
  check_shapes(kTransfers, 1);
}

TEST_F(Execution, ACopiedSyscallReturnsBehindItself) {
  Arena arena(0x20000000);
  ASSERT_TRUE(arena.mapped());
  auto bytes = arena.place({"syscall", "0f 05"});
  arena.write(arena.copy(), std::get<OutOfLine>(relocate(bytes, arena.from(), arena.copy())).code);
  CpuState start = arena.start(0, 0);
  start.gpr[kRax] = 39;  // getpid
  CpuState end = run(arena, start, arena.copy()).state;
  EXPECT_EQ(end.gpr[kRax], static_cast<uint64_t>(getpid()));
  EXPECT_EQ(end.gpr[kRcx], arena.copy().value + 2);
  EXPECT_EQ(end.exit, arena.from().value + 2 + kStub);
}

}  // namespace
}  // namespace rtrace::arch::execution_test
