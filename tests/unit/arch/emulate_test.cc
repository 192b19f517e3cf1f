#include "rtrace/arch/emulate.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <bit>
#include <cstring>
#include <random>

#include "arch/code_text.h"
#include "arch/cpu_harness.h"

namespace rtrace::arch::emulate_test {
namespace {

using Kind = Emulation::Kind;
constexpr VirtAddr kAt{0x401000};

struct Row {
  const char* code;
  Emulation emulation;
};

TEST(EmulationFor, WhatIsWholeInRegistersOrOneWord) {
  const Row rows[] = {
      {"f3 0f 1e fa ; endbr64", {Kind::skip, 4, {}, 0}},
      {"66 90", {Kind::skip, 2, {}, 0}},
      {"f3 90 ; pause", {Kind::skip, 2, {}, 0}},
      {"0f 1f 00", {Kind::skip, 3, {}, 0}},
      {"0f 1f 44 00 00", {Kind::skip, 5, {}, 0}},
      {"66 66 2e 0f 1f 84 00 00 00 00 00", {Kind::skip, 11, {}, 0}},
      {"eb 10", {Kind::jump, 2, kAt + 0x12, 0}},
      {"e9 fb ff ff ff ; jmp self", {Kind::jump, 5, kAt, 0}},
      {"ff 25 10 00 00 00", {Kind::jump_through, 6, kAt + 0x16, 0}},
      {"f2 ff 25 10 00 00 00 ; bnd jmp, of an IBT PLT", {Kind::jump_through, 7, kAt + 0x17, 0}},
      {"48 83 ec 18 ; sub rsp, 0x18", {Kind::sub_from_sp, 4, {}, 0x18}},
      {"48 83 ec 80 ; sub rsp, -0x80", {Kind::sub_from_sp, 4, {}, -0x80}},
      {"48 81 ec 00 00 00 80", {Kind::sub_from_sp, 7, {}, -0x80000000LL}},
      {"48 83 c4 08", {Kind::add_to_sp, 4, {}, 8}},
      {"48 81 c4 00 10 00 00", {Kind::add_to_sp, 7, {}, 0x1000}},
      {"c3", {Kind::ret, 1, {}, 0}},
      {"f3 c3", {Kind::ret, 2, {}, 0}},
      {"c2 10 80", {Kind::ret, 3, {}, 0x8010}},
  };
  for (const Row& row : rows) {
    auto emulation = emulation_for(assemble(row.code), kAt);
    ASSERT_TRUE(emulation.has_value()) << row.code;
    EXPECT_TRUE(*emulation == row.emulation) << row.code;
  }
}

TEST(EmulationFor, TheRestRunsOutOfLine) {
  const char* const rows[] = {
      "90 ; one byte",
      "55 ; push rbp",
      "f4 ; hlt",
      "cc ; int3",
      "41 90 ; xchg r8d, eax",
      "f3 48 0f 1e c8 ; rdsspq rax",
      "83 ec 18 ; sub esp, 0x18",
      "49 83 ec 18 ; sub r12, 0x18",
      "48 83 2c 24 18 ; sub qword [rsp], 0x18",
      "48 83 cc 18 ; or rsp, 0x18",
      "48 83 e4 f0 ; and rsp, -0x10",
      "48 83 d4 08 ; adc rsp, 8",
      "74 10 ; je",
      "e8 00 00 00 00 ; call",
      "ff e0 ; jmp rax",
      "64 ff 25 10 00 00 00 ; jmp fs:[rip + 0x10]",
      "67 ff 25 10 00 00 00 ; jmp [eip + 0x10]",
      "eb ff ; jmp to address + 1, which would read as not yet passed",
      "66 c3 ; means two things",
      "48 83 ; cut short",
  };
  for (const char* code : rows) {
    EXPECT_FALSE(emulation_for(assemble(code), kAt).has_value()) << code;
  }
}

TEST(Emulation, OnlyWhatReadsNoMemoryIsRegistersOnly) {
  for (Kind kind : {Kind::skip, Kind::jump, Kind::add_to_sp, Kind::sub_from_sp})
    EXPECT_TRUE((Emulation{kind, 1, {}, 0}.registers_only()));
  for (Kind kind : {Kind::jump_through, Kind::ret})
    EXPECT_FALSE((Emulation{kind, 1, {}, 0}.registers_only()));
}

Regs standing_at(VirtAddr pc, VirtAddr sp) {
  Regs regs;
  regs.set_pc(pc);
  regs.set_sp(sp);
  regs.raw.eflags = 0x246;
  return regs;
}

bool untouched(const Regs& regs, const Regs& before) {
  return std::memcmp(&regs.raw, &before.raw, sizeof regs.raw) == 0;
}

TEST(Emulate, JumpThroughTakesTheWordInTheSlot) {
  BufferMemory memory;
  memory.add_value(kAt + 0x16, uint64_t{0x7f0000001234});
  Regs regs = standing_at(kAt, {0x7000});
  ASSERT_TRUE(emulate(*emulation_for(assemble("ff 25 10 00 00 00"), kAt), kAt, regs, memory));
  EXPECT_EQ(regs.pc(), VirtAddr{0x7f0000001234});
  EXPECT_EQ(regs.sp(), VirtAddr{0x7000});
  EXPECT_EQ(regs.raw.eflags, 0x246u);
}

TEST(Emulate, RetPopsTheAddressAndTheExtraBytes) {
  BufferMemory memory;
  memory.add_value(VirtAddr{0x7000}, uint64_t{0x402000});
  Regs regs = standing_at(kAt, {0x7000});
  ASSERT_TRUE(emulate(*emulation_for(assemble("c2 10 00"), kAt), kAt, regs, memory));
  EXPECT_EQ(regs.pc(), VirtAddr{0x402000});
  EXPECT_EQ(regs.sp(), VirtAddr{0x7018});
}

TEST(Emulate, AWordThatCannotServeLeavesTheRegistersAlone) {
  const uint64_t not_canonical = uint64_t{1} << 47;
  struct {
    const char* claim;
    std::optional<uint64_t> word;
  } rows[] = {
      {"unreadable", std::nullopt}, {"out of user space", not_canonical}, {"address + 1", kAt.value + 1}};
  for (const auto& row : rows) {
    for (const char* code : {"c3", "ff 25 10 00 00 00"}) {
      SCOPED_TRACE(std::string(row.claim) + ": " + code);
      BufferMemory memory;
      if (row.word) memory.add_value(VirtAddr{0x7000}, *row.word);
      if (row.word) memory.add_value(kAt + 0x16, *row.word);
      Regs regs = standing_at(kAt, {0x7000});
      const Regs before = regs;
      EXPECT_FALSE(emulate(*emulation_for(assemble(code), kAt), kAt, regs, memory));
      EXPECT_TRUE(untouched(regs, before));
    }
  }
}

// A page with `op imm32, %rax; call *exit`: the flags are those that the same operands give on rsp, which a
// test cannot set freely.
class RaxProgram {
 public:
  RaxProgram() {
    page_ = static_cast<std::byte*>(
        mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    uint64_t exit = exit_handler();
    std::memcpy(page_ + kPage, &exit, sizeof exit);
  }
  ~RaxProgram() { munmap(page_, 2 * kPage); }
  RaxProgram(const RaxProgram&) = delete;
  RaxProgram& operator=(const RaxProgram&) = delete;

  CpuState run(std::vector<std::byte> operation, uint64_t rax, uint64_t flags) {
    auto to_slot = static_cast<int32_t>(kPage - operation.size() - 6);
    operation.insert(operation.end(), {std::byte{0xff}, std::byte{0x15}});
    auto raw = std::as_bytes(std::span(&to_slot, 1));
    operation.insert(operation.end(), raw.begin(), raw.end());
    mprotect(page_, kPage, PROT_READ | PROT_WRITE);
    std::memcpy(page_, operation.data(), operation.size());
    mprotect(page_, kPage, PROT_READ | PROT_EXEC);
    CpuState start;
    start.gpr[kRax] = rax;
    start.gpr[kRsp] = std::bit_cast<uint64_t>(page_ + 2 * kPage);
    start.flags = flags | 0x202;
    return run_on_cpu(start, std::bit_cast<uint64_t>(page_));
  }

 private:
  static constexpr size_t kPage = 4096;
  std::byte* page_;
};

std::vector<std::byte> adjustment(bool subtract, bool short_form, int32_t immediate, bool on_rsp) {
  std::vector<std::byte> bytes = assemble(short_form ? "48 83" : "48 81");
  bytes.push_back(static_cast<std::byte>((subtract ? 0xe8 : 0xc0) + (on_rsp ? 4 : 0)));
  auto raw = std::as_bytes(std::span(&immediate, 1)).first(short_form ? 1 : 4);
  bytes.insert(bytes.end(), raw.begin(), raw.end());
  return bytes;
}

TEST(Emulate, StackAdjustmentsSetTheFlagsThatTheProcessorSets) {
  RaxProgram program;
  std::mt19937_64 random(20240607);
  const uint64_t corners[] = {0,
                              1,
                              0xf,
                              0x10,
                              0x7f,
                              0x80,
                              0x7fffffff,
                              0x80000000,
                              0x7fffffffffffffff,
                              0x8000000000000000,
                              0xffffffff80000000,
                              0xffffffffffffff80,
                              ~uint64_t{0},
                              0x7ffc12345670};
  uint64_t seen = 0;
  for (int i = 0; i < 4000; ++i) {
    bool subtract = i % 2 == 0, short_form = i % 4 < 2;
    uint64_t pick = random();
    uint64_t value = pick % 3 == 0 ? random() : corners[pick / 3 % std::size(corners)];
    auto immediate = static_cast<int32_t>(pick % 5 < 2 ? random() : corners[pick / 64 % std::size(corners)]);
    uint64_t flags = random() & kArithmeticFlags;

    CpuState cpu = program.run(adjustment(subtract, short_form, immediate, false), value, flags);
    Regs regs = standing_at(kAt, {value});
    regs.raw.eflags = flags | 0x202;
    auto emulation = emulation_for(adjustment(subtract, short_form, immediate, true), kAt);
    ASSERT_TRUE(emulation.has_value());
    ASSERT_TRUE(emulate(*emulation, kAt, regs, BufferMemory()));
    ASSERT_EQ(regs.raw.rsp, cpu.gpr[kRax]);
    ASSERT_EQ(regs.raw.eflags, cpu.flags)
        << (subtract ? "sub " : "add ") << std::hex << immediate << " on " << value;
    ASSERT_EQ(regs.pc(), kAt + emulation->length);
    seen |= cpu.flags;
  }
  EXPECT_EQ(seen & kArithmeticFlags, kArithmeticFlags) << "the values never set some flag";
}

}  // namespace
}  // namespace rtrace::arch::emulate_test
