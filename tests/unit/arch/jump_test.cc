#include "rtrace/arch/jump.h"

#include <gtest/gtest.h>

#include "arch/code_text.h"

namespace rtrace::arch {
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

TEST(Jump, TheFarOneHoldsItsTarget) {
  EXPECT_EQ(bytes_of(encode_far_jmp({0x7f1122334455})),
            assemble("ff 25 00 00 00 00 55 44 33 22 11 7f 00 00"));
}

}  // namespace
}  // namespace rtrace::arch
