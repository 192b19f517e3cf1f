#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "rtrace/decode/call_decoder.h"
#include "rtrace/proto/parser.h"

namespace rtrace::decode::capture_plan_test {
namespace {

// "reg1 string<=33", one for each capture, then "deep" and the stack's bytes where there are any.
std::string described(const agent::CapturePlan& plan) {
  std::string text;
  for (unsigned i = 0; i < plan.count; ++i) {
    const agent::Capture& capture = plan.captures[i];
    if (!text.empty()) text += "; ";
    using Source = agent::Capture::Source;
    using Length = agent::Capture::Length;
    if (capture.source == Source::result)
      text += "result ";
    else
      text += fmt::format("{}{} ", capture.source == Source::stack_slot ? "slot" : "reg", capture.index);
    if (capture.length == Length::fixed) text += fmt::format("fixed {}", capture.bound);
    if (capture.length == Length::string) text += fmt::format("string<={}", capture.bound);
    const std::string times = fmt::format("*{}<={}", capture.scale, capture.bound);
    if (capture.length == Length::result) text += "result" + times;
    if (capture.length == Length::result_int) text += "int result" + times;
    if (capture.length == Length::result_unsigned) text += "unsigned result" + times;
    const std::string counter = fmt::format("reg{}", capture.length_index) + times;
    if (capture.length == Length::argument) text += counter;
    if (capture.length == Length::argument_int) text += "int " + counter;
    if (capture.length == Length::argument_unsigned) text += "unsigned " + counter;
  }
  if (plan.deep != 0) text += text.empty() ? "deep" : "; deep";
  if (plan.stack_bytes > 0) text += fmt::format("{}stack {}", text.empty() ? "" : "; ", plan.stack_bytes);
  return text;
}

struct Row {
  std::string prototype;
  std::string at_entry;
  std::string at_return;
};
void PrintTo(const Row& row, std::ostream* out) {
  *out << row.prototype;
}

class Plan : public testing::TestWithParam<Row> {};
TEST_P(Plan, NamesTheMemoryThatDecodingReads) {
  auto prototype = std::make_shared<proto::Prototype>(
      proto::parse_prototype(GetParam().prototype, std::make_shared<const proto::TypeScope>()));
  CallDecoder decoder(prototype, {});
  EXPECT_EQ(described(decoder.at_entry()), GetParam().at_entry);
  EXPECT_EQ(described(decoder.at_return()), GetParam().at_return);
}

INSTANTIATE_TEST_SUITE_P(
    Decode, Plan,
    testing::Values(Row{"int f(int, long, addr)", "", ""},
                    Row{"int mysql_real_query(addr,string,ulong);", "reg1 string<=33", ""},
                    // A negative length means up to the NUL.
                    Row{"string f(string[arg2], int)", "reg0 string<=33", "result string<=33"},
                    Row{"int f(string(array(int, arg2)*), long)", "reg0 fixed 132", ""},
                    Row{"int f(buffer[arg2], int)", "reg0 int reg1*1<=33", ""},
                    Row{"int f(string[8])", "reg0 string<=8", ""},
                    Row{"long write(int, buffer[arg3], ulong)", "reg1 reg2*1<=33", ""},
                    Row{"long read(int, +buffer[retval], ulong)", "", "reg1 result*1<=33"},
                    Row{"int f(int, +buffer[retval], uint)", "", "reg1 int result*1<=33"},
                    Row{"uint f(int, +buffer[retval], uint)", "", "reg1 unsigned result*1<=33"},
                    Row{"int f(buffer[arg2], uint)", "reg0 unsigned reg1*1<=33", ""},
                    Row{"int f(int*, struct(int, int)*, array(int, arg4)*, int)",
                        "reg0 fixed 4; reg1 fixed 8; reg2 int reg3*4<=20", ""},
                    Row{"int f(array(long, 3), array(long, zero))", "reg0 fixed 24; reg1 fixed 40", ""},
                    Row{"int f(struct(int, string)*)", "reg0 fixed 16; deep", ""},
                    Row{"int f(string*)", "reg0 fixed 8; deep", ""},
                    Row{"int f(struct(long, string(array(char, elt1)))*)", "reg0 fixed 8; deep", ""},
                    Row{"int f(struct(long, string(array(char, 8)))*)", "reg0 fixed 16", ""},
                    Row{"int f(guess(addr))", "reg0 string<=33", ""},
                    Row{"int f(guess(addr)*)", "reg0 fixed 8; deep", ""},
                    Row{"int f(string[arg2], int*)", "reg0 string<=33; reg1 fixed 4", ""},
                    Row{"int f(string[arg2], +int*)", "reg0 string<=33; deep", "reg1 fixed 4"},
                    Row{"int f(buffer[arg2], inout int*)", "reg0 fixed 33; reg1 fixed 4", "reg1 fixed 4"},
                    Row{"int f(format)", "reg0 string<=33; deep; stack 1024", ""},
                    Row{"int f(string(int))", "reg0 fixed 132", ""},
                    Row{"int f(int,int,int,int,int,int,string,int*)",
                        "slot0 string<=33; slot1 fixed 4; stack 16", ""},
                    Row{"int f(inout int*)", "reg0 fixed 4", "reg0 fixed 4"},
                    Row{"void f(struct(long, string))", "deep", ""},
                    Row{"struct(long, long, long) f(string)", "reg1 string<=33", "result fixed 24"},
                    Row{"double f(double, string)", "reg0 string<=33", ""}));

TEST(Plan, OfAGuessIsFourStrings) {
  EXPECT_EQ(described(CallDecoder(nullptr, {}).at_entry()),
            "reg0 string<=33; reg1 string<=33; reg2 string<=33; reg3 string<=33");
  EXPECT_TRUE(CallDecoder(nullptr, {}).all_at_entry());
}

TEST(Plan, AResultWhoseLengthIsAnArgumentNeedsTheEntry) {
  auto all_at_entry = [](const char* text) {
    return CallDecoder(std::make_shared<const proto::Prototype>(
                           proto::parse_prototype(text, std::make_shared<const proto::TypeScope>())),
                       {})
        .all_at_entry();
  };
  EXPECT_TRUE(all_at_entry("string f(string[arg2], int)"));
  EXPECT_FALSE(all_at_entry("string[arg2] f(string, int)"));
  EXPECT_FALSE(all_at_entry("struct(long, buffer[arg1])* f(int)"));
}

// Remembers how far it was read.
class CountingMemory : public Memory {
 public:
  CountingMemory(VirtAddr begin, size_t size) : begin_(begin), size_(size) {}
  size_t read(VirtAddr address, std::span<std::byte> out) const override {
    if (address < begin_ || address - begin_ >= size_) return 0;
    furthest_ = std::max(furthest_, static_cast<size_t>(address - begin_) + out.size());
    size_t count = std::min(out.size(), size_ - static_cast<size_t>(address - begin_));
    std::fill_n(out.begin(), count, std::byte{'x'});
    return count;
  }
  size_t furthest() const { return furthest_; }

 private:
  VirtAddr begin_;
  size_t size_;
  mutable size_t furthest_ = 0;
};

TEST(Plan, BoundsWhatIsReadOfAPlainArgument) {
  for (const char* text :
       {"int f(string)", "int f(buffer[arg2], int)", "int f(string[arg2], int)", "int f(int*, int)",
        "int f(array(int, arg2)*, int)", "int f(array(int, zero)*)", "int f(string(int))"}) {
    auto prototype = std::make_shared<proto::Prototype>(
        proto::parse_prototype(text, std::make_shared<const proto::TypeScope>()));
    CallDecoder decoder(prototype, {});
    ASSERT_EQ(decoder.at_entry().count, 1) << text;
    CountingMemory memory({0x100000}, 1 << 20);
    arch::Regs regs;
    regs.raw.rdi = 0x100000;
    regs.raw.rsi = 1000;
    decoder.enter(regs, memory);
    EXPECT_LE(memory.furthest(), decoder.at_entry().captures[0].bound) << text;
    EXPECT_GT(memory.furthest(), 0U) << text;
  }
}

}  // namespace
}  // namespace rtrace::decode::capture_plan_test
