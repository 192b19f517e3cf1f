// Where values of each shape are taken from, and what is shown of them: {prototype, registers, memory,
// rendered}.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "rtrace/decode/call_decoder.h"
#include "rtrace/proto/parser.h"

namespace rtrace::decode::shapes_test {
namespace {

constexpr uint64_t kStack = 0x7ffc00000ff8;
constexpr uint64_t kObject = 0x20000;  // of the row
constexpr uint64_t kText = 0x30000;    // "text\0more"
constexpr uint64_t kInts = 0x31000;    // 1 2 3 4 5 6
constexpr uint64_t kWide = 0x32000;    // L"wide"
constexpr uint64_t kWild = 0xdead0000;

struct Row {
  std::string prototype;
  std::vector<uint64_t> object;    // at kObject
  std::vector<uint64_t> integers;  // rdi, rsi, ...
  std::vector<uint64_t> stack;     // behind the return address
  std::string text;
};
void PrintTo(const Row& row, std::ostream* out) {
  *out << row.prototype;
}

BufferMemory tracee(const Row& row) {
  BufferMemory memory;
  std::vector<uint64_t> stack = {0x401000};
  stack.insert(stack.end(), row.stack.begin(), row.stack.end());
  memory.add({kStack}, {reinterpret_cast<const char*>(stack.data()), 8 * stack.size()});
  if (!row.object.empty())
    memory.add({kObject}, {reinterpret_cast<const char*>(row.object.data()), 8 * row.object.size()});
  memory.add({kText}, std::string_view("text\0more\0", 10));
  memory.add_value({kInts}, std::array<int32_t, 6>{1, 2, 3, 4, 5, 6});
  memory.add_value({kWide}, std::array<int32_t, 5>{'w', 'i', 'd', 'e', 0});
  return memory;
}

arch::Regs registers(const Row& row) {
  arch::Regs regs;
  regs.raw.rsp = kStack;
  unsigned long long* slots[] = {&regs.raw.rdi, &regs.raw.rsi, &regs.raw.rdx,
                                 &regs.raw.rcx, &regs.raw.r8,  &regs.raw.r9};
  for (size_t i = 0; i < row.integers.size(); ++i) *slots[i] = row.integers[i];
  return regs;
}

// xmm0 holds the floats 1 2 3 4, xmm1 5 6 7 8 ...; the halves above them 100 and so on.
arch::VectorRegs floats() {
  arch::VectorRegs regs;
  for (unsigned i = 0; i < 8; ++i) {
    std::array<float, 4> low{}, high{};
    for (unsigned k = 0; k < 4; ++k) {
      low[k] = static_cast<float>(4 * i + k + 1);
      high[k] = low[k] + 100;
    }
    std::memcpy(regs.xmm[i].data(), low.data(), sizeof low);
    std::memcpy(regs.upper[i].data(), high.data(), sizeof high);
  }
  regs.has_upper = 1;
  return regs;
}

std::string rendered(const Row& row, const arch::VectorRegs& vectors) {
  proto::Diagnostics diagnostics;
  auto file = proto::parse_conf(row.prototype, "t", {}, diagnostics);
  EXPECT_THAT(diagnostics, testing::IsEmpty());
  BufferMemory memory = tracee(row);
  CallDecoder decoder(file.functions.begin()->second, {.string = 32, .array = 4});
  std::string text;
  for (const Argument& argument : decoder.enter(registers(row), memory, &vectors).arguments)
    text += (text.empty() ? "" : ", ") + to_text(argument.value);
  return text;
}

class Shape : public testing::TestWithParam<Row> {};
TEST_P(Shape, IsRenderedFromWhereThePsabiPutsIt) {
  EXPECT_EQ(rendered(GetParam(), floats()), GetParam().text);
}

constexpr uint64_t kMinusOne = ~uint64_t{0};

INSTANTIATE_TEST_SUITE_P(
    Registers, Shape,
    testing::Values(
        Row{"int f(int128, int)", {}, {kMinusOne, kMinusOne, 3}, {}, "-1, 3"},
        Row{"int f(int128)", {}, {0, 1}, {}, "18446744073709551616"},
        Row{"int f(hex(uint128))", {}, {0, 1}, {}, "0x10000000000000000"},
        Row{"int f(oct(uint128))", {}, {0, 1}, {}, "02000000000000000000000"},
        Row{"int f(guess(int128), guess(int128))", {}, {7, 0, 0, 7}, {}, "7, 0x70000000000000000"},
        Row{"int f(bool(int128))", {}, {0, 1}, {}, "true"},
        // Neither of its halves goes in a register, and what follows still does.
        Row{"int f(int,int,int,int,int,int128,int)", {}, {1, 2, 3, 4, 5, 6}, {7, 0}, "1, 2, 3, 4, 5, 7, 6"},
        Row{"int f(complex(float), float)", {}, {}, {}, "{ 1.000000, 2.000000 }, 5.000000"},
        Row{"int f(vector(float, 4), float)",
            {},
            {},
            {},
            "[ 1.000000, 2.000000, 3.000000, 4.000000 ], 5.000000"},
        Row{"int f(vector(float, 2), float)", {}, {}, {}, "[ 1.000000, 2.000000 ], 5.000000"},
        Row{"int f(struct(vector(float, 8)), float)",
            {},
            {},
            {},
            "{ [ 1.000000, 2.000000, 3.000000, 4.000000... ] }, 5.000000"},
        Row{"int f(struct(@0:0:5 uint, @0:5:30 uint), int)", {}, {32 * 5 + 3, 9}, {}, "{ 3, 5 }, 9"},
        Row{"int f(struct[5, 1](char, @1 int), int)", {}, {9}, {0x0000000761}, "{ 'a', 7 }, 9"},
        Row{"int f(union(array(long, 2), longdouble), int)",
            {},
            {uint64_t{1} << 63, 0x3fff, 9},
            {},
            "{ [ -9223372036854775808, 16383 ], 1.000000 }, 9"},
        Row{"int f(union(double, longdouble), int)", {}, {9}, {0, 0}, "{ 0.000000, 0.000000 }, 9"},
        Row{"int f(struct(), int)", {}, {9}, {}, "{ }, 9"}));

INSTANTIATE_TEST_SUITE_P(
    Containers, Shape,
    testing::Values(
        Row{"int f(std_string*)", {kText, 4, 0, 0}, {kObject}, {}, "\"text\""},
        Row{"int f(std_string*)", {kText, 9, 0, 0}, {kObject}, {}, "\"text\\0more\""},
        Row{"int f(std_string*)", {kText, 0, 0, 0}, {kObject}, {}, "\"\""},
        Row{"int f(std_string*)", {0, 0, 0, 0}, {0}, {}, "nil"},
        Row{"int f(std_string*)", {kWild, 4, 0, 0}, {kObject}, {}, "0xdead0000"},
        Row{"int f(std_string*)", {kText, kMinusOne, 0, 0}, {kObject}, {}, "\"text\\0more\\0\"..."},
        Row{"int f(std_string*)", {}, {kWild}, {}, "0xdead0000"},
        Row{"int f(std_string(uint)*)", {kWide, 4, 0, 0}, {kObject}, {}, "\"wide\""},
        Row{"int f(std_string_view, int)", {}, {4, kText, 9}, {}, "\"text\", 9"},
        Row{"int f(std_vector(int)*)", {kInts, kInts + 12, kInts + 24}, {kObject}, {}, "[ 1, 2, 3 ]"},
        Row{"int f(std_vector(int)*)", {kInts, kInts + 24, kInts + 24}, {kObject}, {}, "[ 1, 2, 3, 4... ]"},
        Row{"int f(hex(std_vector(int))*)", {kInts, kInts + 8, kInts + 24}, {kObject}, {}, "[ 0x1, 0x2 ]"},
        Row{"int f(std_vector(int)*)", {0, 0, 0}, {kObject}, {}, "[ ]"},
        Row{"int f(std_vector(int)*)", {kInts + 8, kInts, 0}, {kObject}, {}, "0x20000"},
        Row{"int f(std_vector(int)*)", {kInts, kInts + 7, 0}, {kObject}, {}, "0x20000"},
        Row{"int f(std_vector(int)*)", {kWild, kWild + (uint64_t{1} << 40), 0}, {kObject}, {}, "0xdead0000"},
        Row{"int f(std_vector(std_string)*)",
            {kObject + 24, kObject + 56, 0, kText, 4, 0, 0},
            {kObject},
            {},
            "[ \"text\" ]"}));

TEST(Shapes, TheUpperHalfOfAWideRegisterIsNeverMadeUp) {
  arch::VectorRegs vectors = floats();
  const Row row{"int f(vector(float, 8))", {}, {}, {}, ""};
  vectors.has_upper = 0;
  EXPECT_EQ(rendered(row, vectors), "[ 1.000000, 2.000000, 3.000000, 4.000000... ]");
  const Row doubles{"int f(struct(vector(double, 4)))", {}, {}, {}, ""};
  EXPECT_THAT(rendered(doubles, vectors), testing::EndsWith("... ] }"));
  const std::string text = rendered(doubles, vectors);
  EXPECT_EQ(std::count(text.begin(), text.end(), ','), 1) << text;
}

TEST(Shapes, TheXsaveImageSaysWhatIsInItsInitialState) {
  std::array<std::byte, 832> image{};
  image[160] = std::byte{7};  // xmm0
  image[576] = std::byte{9};  // ymm0's upper half
  EXPECT_EQ(arch::VectorRegs::from(image).xmm[0][0], std::byte{0});
  image[512] = std::byte{2};
  EXPECT_EQ(arch::VectorRegs::from(image).xmm[0][0], std::byte{7});
  EXPECT_EQ(arch::VectorRegs::from(image).upper[0][0], std::byte{0});
  image[512] = std::byte{6};
  EXPECT_EQ(arch::VectorRegs::from(image).upper[0][0], std::byte{9});
  EXPECT_EQ(arch::VectorRegs::from(std::span(image).first(700)).has_upper, 0);
}

}  // namespace
}  // namespace rtrace::decode::shapes_test
