#include "rtrace/arch/register_jumps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "code_text.h"

namespace rtrace::arch::register_jumps_test {
namespace {

constexpr VirtAddr kBegin{0x1000}, kSlot{0x3000};

// "@" stands for the four bytes of the distance to the slot, as the last of an instruction.
std::vector<std::byte> code_of(std::string_view text) {
  std::vector<std::byte> code;
  for (size_t from = 0;;) {
    const size_t at = text.find('@', from);
    for (std::byte byte : assemble(text.substr(from, at - from))) code.push_back(byte);
    if (at == std::string_view::npos) return code;
    const auto distance = static_cast<uint32_t>(kSlot.value - (kBegin.value + code.size() + 4));
    for (int shift = 0; shift < 32; shift += 8) code.push_back(std::byte(distance >> shift & 0xff));
    from = at + 1;
  }
}

std::vector<uint64_t> jumps_in(std::string_view text) {
  std::vector<uint64_t> offsets;
  const auto code = code_of(text);
  for (const VirtAddr jump : find_register_jumps(code, kBegin, kSlot)) offsets.push_back(jump - kBegin);
  return offsets;
}

TEST(RegisterJumps, AreThoseThatMayLeadWhereTheSlotDoes) {
  const struct {
    const char* what;
    const char* code;
    std::vector<uint64_t> jumps;
  } rows[] = {
      {"loaded and jumped to", "48 8b 05 @ ; mov slot, %rax\n 48 83 c4 08  ff e0 ; jmp *%rax", {11}},
      {"kept over a call, moved, jumped to",
       "41 56  4c 8b 35 @ ; mov slot, %r14\n 41 ff d6 ; call *%r14\n 4c 89 f0  48 83 c4 08  5b  41 5e  ff e0",
       {22}},
      {"in a high register", "4c 8b 15 @ ; mov slot, %r10\n 41 ff e2", {7}},
      {"not kept over a call", "48 8b 05 @ e8 00 00 00 00  ff e0", {}},
      {"loaded behind, where no code falls into",
       "eb 0a ; jmp load\n ff e0 ; back: jmp *%rax\n 90 90 90 90 90 90 90 90  48 8b 05 @ eb ed ; jmp back",
       {2}},
      {"another register", "48 8b 05 @ ff e1", {}},
      {"its lower half alone", "48 8b 05 @ 89 c1 ff e1", {}},
      {"overwritten", "48 8b 05 @ 48 8b 43 08  ff e0", {}},
      {"computed, as by a switch", "48 8b 05 @ 48 63 04 82  48 01 d0  ff e0", {}},
      {"a jump that two ways lead to, neither with it",
       "48 8b 05 @ 31 c0  74 03 ; je jump\n 48 01 d0  ff e0 ; jump: jmp *%rax\n 48 01 d8  eb f9 ; jmp jump",
       {}},
      {"a jump that one of two ways leads to with it",
       "74 09 ; je other\n 48 8b 05 @ eb 03 ; jmp jump\n 48 01 d0 ; other\n ff e0 ; jump: jmp *%rax",
       {14}},
      {"a switch of CET", "48 8b 05 @ 3e ff e0", {}},
      {"popped by an epilogue before another way to it",
       "4c 8b 35 @ 74 03 ; je other\n 41 5e c3 ; pop %r14; ret\n 4c 89 f0  41 5e  ff e0 ; other",
       {17}},
      {"by the stack", "48 8b 05 @ 48 89 44 24 08  ff d0  48 8b 44 24 08  ff e0", {19}},
      {"from another place of the stack", "48 8b 05 @ 48 89 44 24 08  ff d0  48 8b 44 24 10  ff e0", {}},
      {"something else from the stack", "48 8b 05 @ ff d0  48 8b 44 24 08  ff e0", {}},
      {"chosen by a condition", "48 8b 05 @ 48 0f 44 c8 ; cmove %rax, %rcx\n ff e1", {11}},
      {"the other one chosen", "48 8b 05 @ 48 0f 44 c1 ; cmove %rcx, %rax\n ff e0", {11}},
      {"a slot of another function", "48 8b 05 00 00 00 00  ff e0", {}},
      {"through memory", "48 8b 05 @ ff 20 ; jmp *(%rax)", {}},
  };
  for (const auto& row : rows) EXPECT_EQ(jumps_in(row.code), row.jumps) << row.what;
}

TEST(RegisterJumps, CodeThatIsNoneEndsTheSearch) {
  EXPECT_THAT(jumps_in("48 8b 05 @ ff e0  06 06  ff e0"), testing::ElementsAre(7));
  EXPECT_THAT(jumps_in(""), testing::IsEmpty());
  EXPECT_THAT(jumps_in("48 8b 05 @ ff"), testing::IsEmpty());
}

TEST(RegisterJumps, LeadWhereTheirRegisterSays) {
  Regs regs;
  regs.raw.rax = 1;
  regs.raw.rsp = 2;
  regs.raw.rdi = 3;
  regs.raw.r8 = 4;
  regs.raw.r15 = 5;
  const auto target = [&](const char* text) {
    const auto number = branch_register(assemble(text));
    return number ? std::optional(register_of(regs, *number)) : std::nullopt;
  };
  EXPECT_EQ(target("ff e0 90"), 1u);
  EXPECT_EQ(target("ff e4"), 2u);
  EXPECT_EQ(target("ff d7"), 3u);
  EXPECT_EQ(target("41 ff e0"), 4u);
  EXPECT_EQ(target("3e 41 ff e7"), 5u);
  EXPECT_EQ(target("ff 25 00 00 00 00"), std::nullopt);
  EXPECT_EQ(target("ff f0"), std::nullopt) << "push";
  EXPECT_EQ(target("e9 00 00 00 00"), std::nullopt);
  EXPECT_EQ(target(""), std::nullopt);
}

}  // namespace
}  // namespace rtrace::arch::register_jumps_test
