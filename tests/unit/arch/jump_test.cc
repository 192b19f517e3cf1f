#include "rtrace/arch/jump.h"

#include <gtest/gtest.h>

#include "arch/code_text.h"

namespace rtrace::arch::jump_test {
namespace {

std::vector<std::byte> bytes_of(std::span<const std::byte> code) {
  return {code.begin(), code.end()};
}

TEST(Jump, DistanceIsFromBehindTheJump) {
  EXPECT_EQ(bytes_of(*encode_jmp({0x401000}, {0x402000})), assemble("e9 fb 0f 00 00"));
  EXPECT_EQ(bytes_of(*encode_jmp({0x402000}, {0x401000})), assemble("e9 fb ef ff ff"));
}

TEST(Jump, ReachEndsAtTheLastRel32) {
  VirtAddr from{0x7f0000001000};
  EXPECT_EQ(bytes_of(*encode_jmp(from, from + 5 + 0x7fffffff)), assemble("e9 ff ff ff 7f"));
  EXPECT_EQ(encode_jmp(from, from + 5 + 0x80000000), std::nullopt);
  EXPECT_EQ(bytes_of(*encode_jmp(from, from + 5 - 0x80000000)), assemble("e9 00 00 00 80"));
  EXPECT_EQ(encode_jmp(from, from + 5 - 0x80000001), std::nullopt);
}

TEST(Jump, SaysWhereItLeads) {
  for (VirtAddr to : {VirtAddr{0x401000}, VirtAddr{0x402005}, VirtAddr{0x7f000000}})
    EXPECT_EQ(near_jump_target(*encode_jmp({0x402000}, to), {0x402000}), to);
  EXPECT_EQ(near_jump_target(assemble("e8 00 00 00 00"), {0x402000}), std::nullopt);
  EXPECT_EQ(near_jump_target(assemble("e9 00 00 00"), {0x402000}), std::nullopt);
}

TEST(Jump, TheFarOneHoldsItsTarget) {
  EXPECT_EQ(bytes_of(encode_far_jmp({0x7f1122334455})),
            assemble("ff 25 00 00 00 00 55 44 33 22 11 7f 00 00"));
}

TEST(ShortJump, ReachesFrom126BytesBackTo129Ahead) {
  const VirtAddr from{0x402000};
  EXPECT_EQ(bytes_of(*encode_short_jmp(from, from + 2 + 127)), assemble("eb 7f"));
  EXPECT_EQ(encode_short_jmp(from, from + 2 + 128), std::nullopt);
  EXPECT_EQ(bytes_of(*encode_short_jmp(from, from + 2 - 128)), assemble("eb 80"));
  EXPECT_EQ(encode_short_jmp(from, from + 2 - 129), std::nullopt);
}

TEST(ShortJump, ItsTargetIsReadBack) {
  for (const VirtAddr to : {VirtAddr{0x402000}, VirtAddr{0x402081}, VirtAddr{0x401f82}})
    EXPECT_EQ(short_jump_target(*encode_short_jmp({0x402000}, to), {0x402000}), to);
  EXPECT_EQ(short_jump_target(assemble("e9 00"), {0x402000}), std::nullopt);
  EXPECT_EQ(short_jump_target(assemble("eb"), {0x402000}), std::nullopt);
}

}  // namespace
}  // namespace rtrace::arch::jump_test
