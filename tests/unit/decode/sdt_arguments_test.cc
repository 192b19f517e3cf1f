#include "rtrace/decode/sdt_arguments.h"

#include <gtest/gtest.h>

#include <cstring>

namespace rtrace::decode::sdt_arguments_test {
namespace {

constexpr uint64_t kStack = 0x7ffc0000, kObject = 0x560000000000;

class SdtArgumentsTest : public testing::Test {
 protected:
  SdtArgumentsTest() {
    regs_.raw.rax = 0x1122334455667788;
    regs_.raw.rbx = 3;
    regs_.raw.rcx = ~uint64_t{0};
    regs_.raw.rdi = 0xdeadbeeffffffff9;  // edi: -7
    regs_.raw.rsi = kObject + 0x100;
    regs_.raw.rsp = kStack;
    regs_.raw.rbp = kStack + 64;
    regs_.raw.r13 = 0x8180;
    regs_.raw.fs_base = kObject + 0x300;
    for (uint64_t i = 0; i < 16; ++i) memory_.add_value(VirtAddr{kStack + 8 * i}, uint64_t{0x1000 + i});
    memory_.add(VirtAddr{kObject + 0x100}, std::string_view("some text\0", 10));
    memory_.add_value(VirtAddr{kObject + 0x200}, int64_t{77});
    memory_.add_value(VirtAddr{kObject + 0x310}, int32_t{-31});
  }

  std::string text(std::string_view operands, const arch::VectorRegs* vectors = nullptr) const {
    const auto symbols = [](std::string_view name) -> std::optional<VirtAddr> {
      if (name == "counter") return VirtAddr{kObject + 0x200};
      return std::nullopt;
    };
    std::string all;
    for (const Argument& argument : SdtArguments(operands, Limits{}, symbols).read(regs_, memory_, vectors))
      all += (all.empty() ? "" : " ") + to_text(argument.value);
    return all;
  }

  arch::Regs regs_;
  BufferMemory memory_;
};

struct Row {
  const char* operands;
  const char* shown;
};

TEST_F(SdtArgumentsTest, EveryFormOfAnOperandIsRead) {
  for (const Row& row : {
           Row{"", ""},
           Row{"-4@%edi 8@%rbx", "-7 3"},
           Row{"4@%edi", "0xfffffff9"},
           Row{"-4@%rdi", "-7"},
           Row{"-8@%edi", "-7"},  // a narrow register holds all there is
           Row{"8@%ebx", "3"},
           Row{"-2@%r13w 2@%r13w 1@%r13b", "0x8180 0x8180 128"},
           Row{"-1@%r13b -1@%ah 1@%al", "-128 119 136"},
           Row{"8@$5 -4@$-5 1@$-1 8@$0x10 8@$010", "5 -5 255 16 8"},
           Row{"-4@$2+3 8@$-8+16", "5 8"},
           Row{"8@(%rsp)", "4096"},
           Row{"8@-24(%rbp)", "4101"},
           Row{"8@16(%rsp)", "4098"},
           Row{"8@-8+16(%rsp)", "4097"},
           Row{"-4@16(%rsp,%rbx,8)", "4101"},
           Row{"-4@(%rsp, %rbx, 4) -4@$1", "0 1"},
           Row{"8@(%rsp,%rbx,8)", "4099"},
           Row{"8@8(,%rbx,1)", "?"},
           Row{"8@counter(%rip)", "77"},
           Row{"8@8+counter-8(%rip)", "77"},
           Row{"8@counter", "77"},
           Row{"8@$counter", "0x560000000200"},
           Row{"-4@%fs:16", "-31"},
           Row{"8@%rsi", "\"some text\""},
           Row{"-8@%rcx", "-1"},
           Row{"8@%rcx", "0xffffffffffffffff"},
           Row{"%rbx", "3"},  // the first versions named no size
       })
    EXPECT_EQ(text(row.operands), row.shown) << row.operands;
}

TEST_F(SdtArgumentsTest, WhatMakesNoSenseIsUnreadableAndTheRestIsShown) {
  for (const char* operand : {"8@",
                              "@",
                              "3@%eax",
                              "8@%raxx",
                              "8@%",
                              "8@$",
                              "8@$nowhere",
                              "8@nowhere(%rip)",
                              "8@16(%rip)",
                              "8@)",
                              "8@((%rsp))",
                              "8@(%rsp,%rbx,3)",
                              "8@(%rsp,%rbx,8,1)",
                              "8@(%al)",
                              "8@%xmm16",
                              "8@counter@GOTPCREL(%rip)",
                              "99999999999999999999@%rax",
                              "--4@%eax",
                              "4f@%eax",
                              "8f@$5",
                              "16@%rax",
                              "8@1(2)",
                              "8@$1*2",
                              "8@%st(0)",
                              "8@0x(%rsp)",
                              "8@$+"})
    EXPECT_EQ(text(std::string(operand) + " 8@%rbx"), "? 3") << operand;
}

TEST_F(SdtArgumentsTest, AParenthesisThatIsNotClosedTakesTheRest) {
  EXPECT_EQ(text("8@%rbx 8@(%rsp 8@%rbx"), "3 ?");
}

TEST_F(SdtArgumentsTest, FloatsAreReadFromVectorRegistersAndMemory) {
  arch::VectorRegs vectors;
  const double twice = 2.5;
  const float single = -0.5F;
  std::memcpy(vectors.xmm[1].data(), &twice, sizeof twice);
  std::memcpy(vectors.xmm[15].data(), &single, sizeof single);
  memory_.add_value(VirtAddr{kStack + 256}, 1.25);
  EXPECT_EQ(text("8f@%xmm1 -4f@%xmm15 -8f@256(%rsp)", &vectors), "2.500000 -0.500000 1.250000");
  EXPECT_EQ(text("8f@%xmm1 8@%rbx"), "? 3") << "without the registers";
  EXPECT_TRUE(SdtArguments("8f@%xmm1", Limits{}, {}).needs_vector_registers());
  EXPECT_FALSE(SdtArguments("8f@(%rsp)", Limits{}, {}).needs_vector_registers());
}

TEST_F(SdtArgumentsTest, HostileTextIsBounded) {
  EXPECT_EQ(SdtArguments(std::string(1 << 20, '('), Limits{}, {}).size(), 1U);
  std::string many;
  for (int i = 0; i < 10000; ++i) many += "8@$1 ";
  EXPECT_EQ(SdtArguments(many, Limits{}, {}).size(), 32U);
  for (int c = 0; c < 256; ++c)
    for (const char* form : {"8@", "8@%", "8@$", "-4@(", "8@1(%rsp,"})
      (void)text(std::string(form) + static_cast<char>(c));
}

TEST_F(SdtArgumentsTest, TypesNameSizeAndSign) {
  const auto read = SdtArguments("-4@%edi 8@%rsi 2@%bx 8f@(%rsp)", Limits{}, {}).read(regs_, memory_);
  ASSERT_EQ(read.size(), 4U);
  EXPECT_EQ(read[0].type, "int");
  EXPECT_EQ(read[1].type, "string");
  EXPECT_EQ(read[2].type, "ushort");
  EXPECT_EQ(read[3].type, "double");
}

}  // namespace
}  // namespace rtrace::decode::sdt_arguments_test
