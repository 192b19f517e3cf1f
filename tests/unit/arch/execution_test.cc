// Each shape runs at its original place and in its copies, from the same registers, flags, data and stack,
// and has to leave the same.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <iterator>
#include <set>
#include <sstream>

#include "arch/code_text.h"
#include "arch/cpu_harness.h"
#include "arch/instruction_shapes.h"
#include "rtrace/arch/emulate.h"
#include "rtrace/arch/relocate.h"

namespace rtrace::arch {
namespace {

constexpr size_t kCopyOffset = 0x100000;
constexpr uint64_t kStub = 6;  // length of `call *slot(%rip)`

// One arena: a page of code, a page of data, two of stack, and further up a page for copies. The code page
// holds the instruction and, at each place where it can lead, a call to the exit.
class Arena {
 public:
  explicit Arena(uint64_t hint) {
    void* base = mmap(std::bit_cast<void*>(hint), kCopyOffset + kPage, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    base_ = base == MAP_FAILED ? nullptr : static_cast<std::byte*>(base);
    std::vector<std::byte> code(kPage, std::byte{0xcc});
    if (base_ != nullptr) put(0, code);
  }
  ~Arena() {
    if (base_ != nullptr) munmap(base_, kCopyOffset + kPage);
  }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  bool mapped() const { return base_ != nullptr; }
  VirtAddr at(size_t offset) const { return {std::bit_cast<uint64_t>(base_) + offset}; }
  VirtAddr from() const { return at(0x100); }
  VirtAddr callee() const { return at(0x800); }
  VirtAddr data() const { return at(kPage); }
  VirtAddr operand() const { return data() + 0x40; }
  VirtAddr stack() const { return at(3 * kPage); }
  VirtAddr copy() const { return at(kCopyOffset); }

  // Bytes of a shape at `from`, and the ways out of it.
  std::vector<std::byte> place(const Shape& shape) {
    std::vector<std::byte> bytes = encode(shape);
    VirtAddr next = from() + bytes.size();
    write(from(), bytes);
    for (VirtAddr way_out : {next, next + kBranch, callee()}) put_exit(way_out);
    return bytes;
  }

  void put_exit(VirtAddr place) {
    std::vector<std::byte> stub = {std::byte{0xff}, std::byte{0x15}};
    append_distance(stub, slot(), place + kStub);
    write(place, stub);
  }

  // Five bytes, so that they cover no more than one jump of a copy.
  void put_jump(VirtAddr place, VirtAddr target) {
    std::vector<std::byte> jump = {std::byte{0xe9}};
    append_distance(jump, target, place + 5);
    write(place, jump);
  }

  void write(VirtAddr address, std::span<const std::byte> bytes) { put(address - at(0), bytes); }

  // Data and stack as they are before each run.
  void reset() {
    std::array<uint64_t, 3 * kPage / 8> words;
    for (size_t i = 0; i < words.size(); ++i) words[i] = 0x0123456789abcdef * (i + 1);
    size_t sp = (stack() - data()) / 8;
    for (size_t i = sp; i < sp + 4; ++i) words[i] = callee().value;
    words[sp + 15] = words[sp + 16] = words[sp + 20] = callee().value;
    words[(operand() - data()) / 8] = callee().value;
    words[(slot() - data()) / 8] = exit_handler();
    std::memcpy(base_ + kPage, words.data(), sizeof words);
  }
  // From `begin` to the end of the stack.
  std::vector<std::byte> contents(VirtAddr begin) const {
    return {base_ + (begin - at(0)), base_ + 4 * kPage};
  }

  CpuState start(uint64_t rcx, uint64_t flags) const {
    CpuState state;
    uint64_t d = data().value, sp = stack().value;
    const uint64_t gpr[16] = {callee().value,
                              rcx,
                              3,
                              d + 0x80,
                              sp,
                              sp + 0x40,
                              d + 0x100,
                              d + 0x200,
                              d + 0x300,
                              0x123456789abcdef,
                              ~uint64_t{0},
                              callee().value,
                              sp,
                              operand().value,
                              uint64_t{1} << 63,
                              7};
    std::copy(std::begin(gpr), std::end(gpr), state.gpr);
    state.flags = flags | 0x202;  // IF and the bit that is always set
    state.vectors[0][0] = std::bit_cast<uint64_t>(1.5);
    state.vectors[1][0] = std::bit_cast<uint64_t>(-2.5);
    return state;
  }

 private:
  static constexpr size_t kPage = 4096;
  static constexpr uint64_t kBranch = 0x40;

  VirtAddr slot() const { return data() + 0xf00; }

  static void append_distance(std::vector<std::byte>& bytes, VirtAddr target, VirtAddr next) {
    auto distance = static_cast<int32_t>(target - next);
    auto raw = std::as_bytes(std::span(&distance, 1));
    bytes.insert(bytes.end(), raw.begin(), raw.end());
  }

  std::vector<std::byte> encode(const Shape& shape) const {
    size_t length = 0;
    for (const std::string& token : tokens(shape)) length += token == "data" || token == "rel32" ? 4 : 1;
    std::vector<std::byte> bytes;
    for (const std::string& token : tokens(shape)) {
      VirtAddr next = from() + length;
      if (token == "rel8")
        bytes.push_back(std::byte{kBranch});
      else if (token == "rel32")
        append_distance(bytes, next + kBranch, next);
      else if (token == "data")
        append_distance(bytes, operand(), next);
      else
        bytes.push_back(assemble(token)[0]);
    }
    return bytes;
  }

  static std::vector<std::string> tokens(const Shape& shape) {
    std::istringstream in(shape.code);
    return {std::istream_iterator<std::string>(in), {}};
  }

  // Code is never writable and executable at once, as where rtrace puts it.
  void put(size_t offset, std::span<const std::byte> bytes) {
    std::byte* page = base_ + offset / kPage * kPage;
    mprotect(page, kPage, PROT_READ | PROT_WRITE);
    std::memcpy(base_ + offset, bytes.data(), bytes.size());
    mprotect(page, kPage, PROT_READ | PROT_EXEC);
  }

  std::byte* base_ = nullptr;
};

struct Outcome {
  CpuState state;
  std::vector<std::byte> memory;
  bool operator==(const Outcome&) const = default;
};

Outcome run(Arena& arena, const CpuState& start, VirtAddr entry) {
  arena.reset();
  CpuState end = run_on_cpu(start, entry.value);
  return {end, arena.contents(arena.data())};
}

class HostMemory : public Memory {
 public:
  size_t read(VirtAddr address, std::span<std::byte> out) const override {
    std::memcpy(out.data(), std::bit_cast<const void*>(address.value), out.size());
    return out.size();
  }
};

std::vector<CpuState> starts(const Arena& arena) {
  std::vector<CpuState> states;
  for (uint64_t rcx : {0u, 1u, 5u})
    for (uint64_t flags : {0x0u, 0x1u, 0x4u, 0x40u, 0x80u, 0x800u, 0x41u, 0x880u, 0x8d5u})
      states.push_back(arena.start(rcx, flags));
  return states;
}

std::string difference(const Outcome& wanted, const Outcome& got) {
  std::string text;
  for (unsigned i = 0; i < 16; ++i)
    if (wanted.state.gpr[i] != got.state.gpr[i])
      text += fmt::format("register {}: {:#x}, wanted {:#x}\n", i, got.state.gpr[i], wanted.state.gpr[i]);
  text += fmt::format("flags {:#x}, wanted {:#x}; exit {:#x}, wanted {:#x}\n", got.state.flags,
                      wanted.state.flags, got.state.exit, wanted.state.exit);
  for (size_t i = 0; i < std::min(wanted.memory.size(), got.memory.size()); ++i)
    if (wanted.memory[i] != got.memory[i])
      return text + fmt::format("memory differs first at data + {:#x}\n", i);
  return text;
}

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
}  // namespace rtrace::arch
