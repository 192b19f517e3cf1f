#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>

#include "rtrace/decode/call_decoder.h"
#include "rtrace/proto/parser.h"

namespace rtrace::decode::hostile_test {
namespace {

// Memory that has something everywhere, and pointers to more of it.
class EndlessMemory : public Memory {
 public:
  size_t read(VirtAddr address, std::span<std::byte> out) const override {
    for (size_t i = 0; i < out.size(); ++i) {
      uint64_t at = address.value + i;
      out[i] = std::byte{at % 8 == 2 ? uint8_t{0x20}
                                     : static_cast<uint8_t>(at * 31 % 7 + (at % 8 < 2 ? at >> 4 : 0))};
      if (at % 8 > 2) out[i] = std::byte{0};
    }
    bytes_ += out.size();
    return out.size();
  }
  size_t bytes() const { return bytes_; }

 private:
  mutable size_t bytes_ = 0;
};

constexpr const char* kSeeds[] = {
    "typedef n = struct;",
    "typedef n = struct(int, n*, array(n*, 100)*, string[elt1]);",
    "n f1(n*, array(struct(long, array(n*, zero)*), 1000000000)*, n**)",
    "string f2(string[arg2], int, buffer[retval], +format)",
    "int f3(enum[long](A=1,B=-5), flags(C=0x10), bitvec(array(int, 3)*), string(array(int, arg1)*))",
    "struct(float, double, longdouble) f4(longdouble, struct(char, float), hex(struct(array(char, 16))))",
    "typedef c = struct(long, case[elt1](1=n*, 2=buffer[filled(elt1)], sockaddr[elt1]));",
    "wstatus f5(sockaddr[arg2], int, array(c, zero)*, case[arg2](0=c*, 1=string, wstatus*))",
    "int f6(case[retval](-1=c*, addr), array(struct(buffer[filled(elt2)], ulong), arg1)*, scanf)",
};

TEST(HostileInput, MutatedPrototypesAndEndlessMemoryGiveBoundedText) {
  std::mt19937 random(20240607);
  auto below = [&](size_t limit) { return std::uniform_int_distribution<size_t>(0, limit - 1)(random); };
  const std::string letters = "()[]*,=;+ argeltzero0123456789hexstring\"\x1b\xff";
  size_t decoded = 0;
  for (int round = 0; round < 10000; ++round) {
    std::string text;
    for (const char* seed : kSeeds) {
      std::string line = seed;
      for (size_t n = below(4); n > 0 && round > 0; --n)
        line[below(line.size())] = letters[below(letters.size())];
      text += line + "\n";
    }
    proto::Diagnostics diagnostics;
    for (const auto& [name, prototype] : proto::parse_conf(text, "t", {}, diagnostics).functions) {
      CallDecoder decoder(prototype, {32, below(5)});
      EndlessMemory memory;
      arch::Regs regs;
      regs.raw.rdi = below(1 << 20), regs.raw.rsi = random(), regs.raw.rdx = below(1 << 20),
      regs.raw.rsp = 0x7ff8;
      auto entered = decoder.enter(regs, memory);
      auto returned = decoder.leave(regs, regs, memory, {});
      ++decoded;
      for (const Argument& argument : entered.arguments)
        EXPECT_LE(to_text(argument.value).size(), 4100U) << text;
      EXPECT_LE(to_text(returned.result).size(), 4100U);
      EXPECT_LE(memory.bytes(), size_t{64} << 20) << text;
    }
  }
  EXPECT_GT(decoded, 2000U);
}

TEST(HostileInput, AHugeArgumentLeavesTheNextItsValues) {
  proto::Diagnostics diagnostics;
  const auto file =
      proto::parse_conf("int f(array(array(int, 1000), 1000)*, array(int, 3)*);", "t", {}, diagnostics);
  const CallDecoder decoder(file.functions.at("f"), {32, 1000});
  arch::Regs regs;
  regs.raw.rdi = 0x1000, regs.raw.rsi = 0x2000;
  const auto entered = decoder.enter(regs, EndlessMemory());
  ASSERT_EQ(entered.arguments.size(), 2u);
  EXPECT_EQ(entered.arguments[1].value.members.size(), 3u);
  EXPECT_FALSE(entered.arguments[1].value.cut);
}

TEST(HostileInput, AnElementLargerThanAnyReadIsNotAllocated) {
  proto::Diagnostics diagnostics;
  const auto file = proto::parse_conf(
      "int f(array(struct(int, array(char, 0x400000000000)), 4)*)\n"
      "int g(array(struct(int, array(char, 0x400000000000)), zero)*)\n",
      "t", {}, diagnostics);
  ASSERT_EQ(file.functions.size(), 2U);
  for (const auto& [name, prototype] : file.functions) {
    EndlessMemory memory;
    arch::Regs regs;
    regs.raw.rdi = 0x10000;
    const auto entered = CallDecoder(prototype, {}).enter(regs, memory);
    EXPECT_THAT(to_text(entered.arguments[0].value), testing::StartsWith("[ { ")) << name;
    EXPECT_LE(memory.bytes(), size_t{1} << 20);
  }
}

// Members of no size, many and deep: what classifies them must not try all combinations.
TEST(HostileInput, EmptyStructsInArraysInStructsAreClassifiedInTime) {
  std::string type = "struct()";
  for (int i = 0; i < 25; ++i) type = "array(" + type + ", 16)";
  proto::Diagnostics diagnostics;
  const auto file = proto::parse_conf("int f(struct(" + type + "))\n", "t", {}, diagnostics);
  ASSERT_EQ(file.functions.size(), 1U);
  const auto entered = CallDecoder(file.functions.at("f"), {}).enter({}, EndlessMemory());
  EXPECT_EQ(entered.arguments.size(), 1U);
}

}  // namespace
}  // namespace rtrace::decode::hostile_test
