#include "rtrace/mech/captured_memory.h"

#include <gmock/gmock.h>

#include <cstring>

#include "tracee/child.h"

namespace rtrace::mech::captured_memory_test {
namespace {

using agent::Capture;
using tests::Pages;
using Source = Capture::Source;
using Length = Capture::Length;

// Four pages of letters; the second cannot be read.
class CapturedMemoryTest : public testing::Test {
 protected:
  CapturedMemoryTest() {
    for (size_t i = 0; i < 4 * Pages::kSize; ++i) pages.data()[i] = static_cast<std::byte>('a' + i % 26);
    pages.unmap(1);
  }
  VirtAddr at(size_t offset) const { return pages.address() + offset; }
  std::string letters(size_t offset, size_t size) const {
    std::string text;
    for (size_t i = offset; i < offset + size; ++i) text += static_cast<char>('a' + i % 26);
    return text;
  }
  std::string read(VirtAddr address, size_t size) const {
    std::string out(size, '?');
    out.resize(captured.read(address, std::as_writable_bytes(std::span(out))));
    return out;
  }
  // How many bytes at `address` a plan of one capture brings.
  size_t brings(const Capture& capture, const arch::Regs& regs, const uint64_t* result, VirtAddr address,
                std::span<const std::byte> stack = {}) {
    captured.clear();
    agent::CapturePlan plan;
    plan.count = 1;
    plan.captures[0] = capture;
    captured.want(plan, regs, result, stack);
    captured.fetch(self);
    return read(address, Pages::kSize).size();
  }

  Pages pages{4, PROT_READ | PROT_WRITE};
  tracee::ProcessMemory self{getpid()};
  CapturedMemory captured;
};

TEST_F(CapturedMemoryTest, ServesWhatWasWantedAndNothingElse) {
  captured.want(at(100), 20);
  captured.fetch(self);
  EXPECT_EQ(read(at(100), 20), letters(100, 20));
  EXPECT_EQ(read(at(110), 4), letters(110, 4));
  EXPECT_EQ(read(at(110), 40), letters(110, 10));
  EXPECT_EQ(read(at(99), 4), "");
  EXPECT_EQ(read(at(120), 4), "");
}

TEST_F(CapturedMemoryTest, AnUnreadablePageCostsOnlyWhatLiesInIt) {
  captured.want(at(4000), 2 * Pages::kSize);
  captured.fetch(self);
  EXPECT_EQ(read(at(4000), 200), letters(4000, 96));
  EXPECT_EQ(read(at(5000), 10), "");
  EXPECT_EQ(read(at(8192), 10), letters(8192, 10));
}

TEST_F(CapturedMemoryTest, ReadsGoOnFromPieceToPiece) {
  captured.want(at(3 * Pages::kSize - 50), 100);
  captured.want(at(3 * Pages::kSize + 50), 10);
  captured.fetch(self);
  EXPECT_EQ(read(at(3 * Pages::kSize - 50), 200), letters(3 * Pages::kSize - 50, 110));
}

TEST_F(CapturedMemoryTest, FetchingAgainSeesTheMemoryAsItIsThen) {
  captured.want(at(0), 4);
  captured.fetch(self);
  pages.data()[0] = std::byte{'X'};
  EXPECT_EQ(read(at(0), 4), "abcd");
  captured.want(at(10), 2);
  captured.fetch(self);
  EXPECT_EQ(read(at(0), 4), "Xbcd");
  EXPECT_EQ(read(at(10), 2), letters(10, 2));
}

TEST_F(CapturedMemoryTest, ClearedItHasNothing) {
  captured.want(at(0), 4);
  captured.fetch(self);
  captured.set_live(&self);
  captured.clear();
  EXPECT_EQ(read(at(0), 4), "");
}

TEST_F(CapturedMemoryTest, LiveMemoryServesWhatWasNotWanted) {
  BufferMemory live;
  live.add(at(4), "LIVE");
  captured.want(at(0), 4);
  captured.fetch(self);
  captured.set_live(&live);
  EXPECT_EQ(read(at(0), 8), "abcdLIVE");
  EXPECT_EQ(read(at(4), 4), "LIVE");
}

TEST_F(CapturedMemoryTest, LengthsAreWhatThePlanSaysWithinItsBound) {
  struct Row {
    const char* what;
    Length length;
    uint16_t scale;
    uint32_t bound;
    uint64_t argument, result;
    size_t expected;
  };
  const auto minus = [](int64_t value) { return static_cast<uint64_t>(-value); };
  const Row rows[] = {
      {"fixed", Length::fixed, 1, 24, 0, 0, 24},
      {"nothing", Length::fixed, 1, 0, 0, 0, 0},
      {"a string may end anywhere", Length::string, 1, 33, 0, 0, 33},
      {"an argument", Length::argument, 1, 100, 7, 0, 7},
      {"an argument of zero", Length::argument, 1, 100, 0, 0, 0},
      {"elements", Length::argument, 8, 100, 7, 0, 56},
      {"elements beyond the bound", Length::argument, 8, 100, 13, 0, 100},
      {"an argument beyond the bound", Length::argument, 1, 100, 5000, 0, 100},
      {"a negative argument", Length::argument, 1, 100, minus(1), 0, 0},
      {"the most negative argument", Length::argument, 8, 100, uint64_t{1} << 63, 0, 0},
      {"elements without end", Length::argument, 65535, 100, 0x7fffffffffffffff, 0, 100},
      {"an int, whatever is above it", Length::argument_int, 8, 100, 0xdeadbeef00000007, 0, 56},
      {"a negative int", Length::argument_int, 1, 100, 0x00000000ffffffff, 0, 0},
      {"an unsigned int", Length::argument_unsigned, 1, 100, 0x8000000000000007, 0, 7},
      {"one beyond the bound", Length::argument_unsigned, 1, 100, 0xffffffff, 0, 100},
      {"a result that is an int", Length::result_int, 1, 100, 0, 0x700000000000000c, 12},
      {"a failed call's", Length::result_int, 1, 100, 0, 0xffffffff, 0},
      {"a result that is an unsigned int", Length::result_unsigned, 1, 100, 0, 0xffffffff0000000c, 12},
      {"the result", Length::result, 1, 100, 0, 12, 12},
      {"a result of elements", Length::result, 4, 100, 0, 12, 48},
      {"a failed call's result", Length::result, 1, 100, 0, minus(1), 0},
  };
  for (const Row& row : rows) {
    arch::Regs regs;
    regs.raw.rdi = at(0).value;
    regs.raw.rdx = row.argument;
    const Capture capture{Source::integer_register, row.length, 0, 2, row.scale, 0, row.bound};
    EXPECT_EQ(brings(capture, regs, &row.result, at(0)), row.expected) << row.what;
  }
}

TEST_F(CapturedMemoryTest, WithoutAResultNothingDependsOnIt) {
  arch::Regs regs;
  regs.raw.rdi = regs.raw.rax = at(0).value;
  EXPECT_EQ(brings({Source::integer_register, Length::result, 0, 0, 1, 0, 50}, regs, nullptr, at(0)), 0u);
  EXPECT_EQ(brings({Source::result, Length::fixed, 0, 0, 1, 0, 50}, regs, nullptr, at(0)), 0u);
  const uint64_t result = at(0).value;
  EXPECT_EQ(brings({Source::result, Length::fixed, 0, 0, 1, 0, 50}, regs, &result, at(0)), 50u);
}

TEST_F(CapturedMemoryTest, EachArgumentRegisterIsASource) {
  for (uint8_t index = 0; index < arch::kIntegerArguments; ++index) {
    arch::Regs regs;
    unsigned long long* const registers[] = {&regs.raw.rdi, &regs.raw.rsi, &regs.raw.rdx,
                                             &regs.raw.rcx, &regs.raw.r8,  &regs.raw.r9};
    *registers[index] = at(0).value;
    EXPECT_EQ(brings({Source::integer_register, Length::fixed, index, 0, 1, 0, 9}, regs, nullptr, at(0)), 9u);
  }
}

TEST_F(CapturedMemoryTest, StackSlotsCountFromBehindTheReturnAddress) {
  const uint64_t slots[] = {1, at(0).value, at(500).value};
  const auto stack = std::as_bytes(std::span(slots));
  const auto slot = [](uint8_t index) {
    return Capture{Source::stack_slot, Length::fixed, index, 0, 1, 0, 6};
  };
  EXPECT_EQ(brings(slot(1), {}, nullptr, at(0), stack), 6u);
  EXPECT_EQ(brings(slot(2), {}, nullptr, at(500), stack), 6u);
  EXPECT_EQ(brings(slot(2), {}, nullptr, at(500), stack.first(23)), 0u) << "a slot that was not all fetched";
  EXPECT_EQ(brings(slot(200), {}, nullptr, at(500), stack), 0u);
}

TEST_F(CapturedMemoryTest, ServesWhatWasReadElsewhere) {
  const std::string front = "front", back = "back";
  captured.clear();
  captured.hold({0x5000}, std::as_bytes(std::span(front)));
  captured.hold({0x5005}, std::as_bytes(std::span(back)));
  EXPECT_EQ(read({0x5000}, 20), "frontback");
  EXPECT_EQ(read({0x5003}, 4), "ntba");
  EXPECT_EQ(read({0x4fff}, 4), "");
  captured.clear();
  EXPECT_EQ(read({0x5000}, 4), "");
}

TEST_F(CapturedMemoryTest, PointersThatCannotBeAreNotFollowed) {
  for (uint64_t pointer : {uint64_t{0}, uint64_t{1}, uint64_t{4095}, uint64_t{1} << 47, ~uint64_t{0}}) {
    arch::Regs regs;
    regs.raw.rdi = pointer;
    EXPECT_EQ(brings({Source::integer_register, Length::fixed, 0, 0, 1, 0, 50}, regs, nullptr, {pointer}),
              0u);
  }
}

}  // namespace
}  // namespace rtrace::mech::captured_memory_test
