#include "rtrace/unwind/unwinder.h"

#include <gmock/gmock.h>

#include "unwind/made_object.h"

namespace rtrace::unwind::unwinder_test {
namespace {

using testing::ElementsAre;

constexpr LoadBias kBias{0x7f0000000000};
constexpr uint64_t kStack = 0x7ffc00001000;

VirtAddr at(uint64_t address) {
  return ElfAddr{address} + kBias;
}

// One made-up object, and a stack of words.
class Process {
 public:
  explicit Process(MadeObject object) : table_(object.file()) {}

  void push(size_t word, uint64_t value) { memory_.add_value({kStack + 8 * word}, value); }
  Registers& registers() { return registers_; }

  Backtrace walk(size_t most = 100) {
    registers_.set(Registers::kSp, kStack);
    registers_.set(Registers::kPc, at(0x50000).value);
    return callers_of_entry(
        registers_, memory_,
        [this](VirtAddr address) -> Place {
          if (address < at(0) || at(0x100000) <= address) return {};
          return {&table_, kBias};
        },
        most);
  }

 private:
  FrameTable table_;
  BufferMemory memory_;
  Registers registers_;
};

std::vector<uint64_t> addresses(const Backtrace& trace) {
  std::vector<uint64_t> all;
  for (const Frame& frame : trace.frames)
    all.push_back(frame.address.value < kBias.value ? frame.address.value
                                                    : frame.address.value - kBias.value);
  return all;
}

// 0x10000: rsp+32, rbx saved; 0x20000: rbp+16; 0x30000: the first function; 0x40000: a row of the test's own.
MadeObject program(const char* own = "", std::string augmentation = "zR") {
  MadeObject object;
  object.augmentation = std::move(augmentation);
  object.functions = {{0x10000, 0x100, bytes("0e 20 83 03")},
                      {0x20000, 0x100, bytes("0c 06 10 86 02")},
                      {0x30000, 0x100, bytes("07 10")},
                      {0x40000, 0x100, bytes(own)}};
  return object;
}

TEST(CallersOfEntry, WalksFromFrameToFrame) {
  Process process(program());
  process.registers().set(Registers::kBp, kStack + 0x100);
  process.push(0, at(0x10010).value);  // sp + 8 = 0x..1008, CFA 0x..1028
  process.push(4, at(0x20010).value);
  process.push(0x100 / 8, 0x1234);  // the caller's rbp
  process.push(0x100 / 8 + 1, at(0x30010).value);
  const Backtrace trace = process.walk();
  EXPECT_THAT(addresses(trace), ElementsAre(0x10010, 0x20010, 0x30010));
  EXPECT_EQ(trace.end, End::outermost);
}

TEST(FramesFrom, BeginWhereTheThreadStands) {
  FrameTable table(program().file());
  BufferMemory memory;
  memory.add_value({kStack + 24}, at(0x30010).value);
  Registers registers;
  registers.set(Registers::kSp, kStack);
  registers.set(Registers::kPc, at(0x10000).value);  // its first byte: not looked up one byte before it
  const Backtrace trace = frames_from(
      registers, memory,
      [&](VirtAddr) -> Place {
        return {&table, kBias};
      },
      10);
  EXPECT_THAT(addresses(trace), ElementsAre(0x10000, 0x30010));
  EXPECT_TRUE(trace.frames[0].interrupted);
}

TEST(CallersOfEntry, GivesNoMoreThanWereAskedFor) {
  Process process(program());
  for (size_t i = 0; i < 100; ++i) process.push(4 * i, at(0x10010).value);
  EXPECT_EQ(process.walk(1).frames.size(), 1u);
  EXPECT_EQ(process.walk(7).frames.size(), 7u);
  EXPECT_EQ(process.walk(7).end, End::limit);
  EXPECT_EQ(process.walk(1000).frames.size(), 100u);
}

TEST(CallersOfEntry, LooksUpTheCallNotWhatComesBehindIt) {
  // A call that is the last instruction of its function returns, if ever, to the next one.
  Process process(program());
  process.push(0, at(0x10100).value);
  process.push(4, at(0x30010).value);
  EXPECT_THAT(addresses(process.walk()), ElementsAre(0x10100, 0x30010));
}

TEST(CallersOfEntry, EndsWhereNothingIsKnown) {
  {
    Process process(program());
    EXPECT_EQ(process.walk().end, End::bad_stack) << "no stack";
  }
  {
    Process process(program());
    process.push(0, 0x1000);
    const Backtrace trace = process.walk();
    EXPECT_THAT(addresses(trace), ElementsAre(0x1000));
    EXPECT_EQ(trace.end, End::no_object);
  }
  {
    Process process(program());
    process.push(0, at(0x50010).value);
    EXPECT_EQ(process.walk().end, End::no_entry);
  }
  {
    Process process(program());
    process.push(0, at(0x10010).value);
    EXPECT_EQ(process.walk().end, End::bad_stack) << "the return address cannot be read";
  }
  {
    Process process(program());
    process.push(0, at(0x10010).value);
    process.push(4, 0);
    EXPECT_EQ(process.walk().end, End::outermost) << "no return address";
  }
}

TEST(CallersOfEntry, EndsWhereTheStackDoesNotGrow) {
  Process process(program("0c 06 08"));  // rbp + 8
  process.registers().set(Registers::kBp, kStack);
  process.push(0, at(0x40010).value);
  const Backtrace trace = process.walk();
  EXPECT_EQ(trace.frames.size(), 1u);
  EXPECT_EQ(trace.end, End::bad_stack);
}

TEST(CallersOfEntry, DoesNotUseRegistersThatACallMayHaveChanged) {
  Process process(program("0c 0a 08"));  // r10 + 8
  process.registers().set(10, kStack + 0x40);
  process.push(0, at(0x40010).value);
  EXPECT_EQ(process.walk().end, End::bad_stack);
}

// What an expression leaves: it is the caller's stack pointer, and the word below it the return address.
struct ExpressionRow {
  const char* what;
  const char* expression;
  std::optional<uint64_t> value;  // in words above kStack
};

TEST(CallersOfEntry, EvaluatesExpressions) {
  const ExpressionRow rows[] = {
      {"breg", "77 38", 8},
      {"breg of another, below", "76 78", 8},
      {"bregx", "92 07 38", 8},
      {"a register that is not known", "70 00", {}},
      {"deref", "77 10 06", 9},
      {"deref_size", "77 10 94 08", 9},
      {"deref_size of nothing", "77 10 94 00", {}},
      {"deref of what is not mapped", "30 06", {}},
      {"const1u", "77 00 08 38 22", 8},
      {"const1s", "77 00 09 c8 1c", 8},
      {"const2u", "77 00 0a 38 00 22", 8},
      {"const2s", "77 00 0b c8 ff 1c", 8},
      {"const4u", "77 00 0c 38 00 00 00 22", 8},
      {"const4s", "77 00 0d c8 ff ff ff 1c", 8},
      {"const8u", "77 00 0e 38 00 00 00 00 00 00 00 22", 8},
      {"constu", "77 00 10 38 22", 8},
      {"consts", "77 00 11 48 1c", 8},
      {"dup, and", "77 38 12 1a", 8},
      {"over, plus", "30 77 38 14 22 22", 8},
      {"drop", "77 38 31 13", 8},
      {"swap", "77 38 30 16", 8},
      {"pick", "77 38 31 32 15 02", 8},
      {"pick too deep", "77 38 15 01", {}},
      {"rot", "31 77 38 32 17", 8},
      {"and, or, xor", "77 38 09 ff 1a 30 21 30 27", 8},
      {"shl", "77 00 37 33 24 22", 8},
      {"shr", "77 00 08 70 31 25 22", 8},
      {"shra", "77 00 09 90 31 26 1c", 8},
      {"a shift by all bits", "77 38 31 08 40 24 22", 8},
      {"plus_uconst", "77 00 23 38", 8},
      {"not, neg", "77 38 20 1f 31 1c", 8},
      {"abs", "77 00 09 c8 19 22", 8},
      {"div", "77 00 08 70 32 1b 22", 8},
      {"mul", "77 00 37 38 1e 22", 8},
      {"mod", "77 00 08 78 08 40 1d 22", 8},
      {"division by zero", "77 38 30 1b", {}},
      {"modulo zero", "77 38 30 1d", {}},
      {"eq", "77 00 31 31 29 08 38 1e 22", 8},
      {"ge", "77 00 31 31 2a 08 38 1e 22", 8},
      {"gt", "77 00 32 31 2b 08 38 1e 22", 8},
      {"le", "77 00 31 31 2c 08 38 1e 22", 8},
      {"lt", "77 00 31 32 2d 08 38 1e 22", 8},
      {"ne", "77 00 31 32 2e 08 38 1e 22", 8},
      {"a PLT stub, before it has pushed", "77 08 80 00 3f 1a 3b 2a 33 24 22", 2},
      {"a branch that is taken", "77 38 31 28 01 00 3f", 8},
      {"a branch that is not", "77 30 30 28 02 00 23 08", 8},
      {"skip", "77 38 2f 02 00 30 30", 8},
      {"a loop", "77 38 2f fd ff", {}},
      {"a jump out", "77 38 2f 7f 00", {}},
      {"a jump before the beginning", "77 38 2f 00 80", {}},
      {"nop", "77 38 96", 8},
      {"an absolute address", "03 00 00 00 00 00 00 00 00", {}},
      {"a register's name", "57", {}},
      {"nothing", "", {}},
      {"too little on the stack", "22", {}},
      {"cut short", "77", {}},
  };
  for (const ExpressionRow& row : rows) {
    const std::string expression = bytes(row.expression);
    Process process(program(("0f " + fmt::format("{:02x} ", expression.size()) + row.expression).c_str()));
    process.registers().set(Registers::kBp, kStack + 8 + 0x40);
    process.push(0, at(0x40010).value);
    // The expression's rsp is kStack + 8. Each word says where it is, but for the one that deref reads.
    for (uint64_t word = 1; word < 16; ++word)
      process.push(word, word == 3 ? kStack + 8 * 9 : at(0x30000 + word).value);
    const Backtrace trace = process.walk();
    if (row.value) {
      EXPECT_THAT(addresses(trace), ElementsAre(0x40010, 0x30000 + *row.value - 1)) << row.what;
    } else {
      EXPECT_EQ(trace.frames.size(), 1u) << row.what;
    }
  }
}

// As glibc describes __restore_rt: every register at its place in the ucontext_t.
std::string restorer_program() {
  std::string program = bytes("0f 04 77 a0 01 06");  // def_cfa_expression: [rsp + 160]
  const uint8_t places[][2] = {{8, 40},  {9, 48},  {10, 56}, {11, 64}, {12, 72}, {13, 80},
                               {14, 88}, {15, 96}, {5, 104}, {4, 112}, {6, 120}, {3, 128},
                               {1, 136}, {0, 144}, {2, 152}, {7, 160}, {16, 168}};
  for (const auto& [number, offset] : places) {
    program += bytes("10") + static_cast<char>(number);
    program += offset < 64
                   ? bytes("02 77") + static_cast<char>(offset)
                   : bytes("03 77") + static_cast<char>(offset | 0x80) + static_cast<char>(offset >> 7);
  }
  return program;
}

void push_context(Process& process, uint64_t pc, uint64_t sp) {
  for (size_t word = 0; word < 15; ++word) process.push(6 + word, 0);  // behind 40 bytes of ucontext_t
  process.push(1 + 160 / 8, sp);
  process.push(1 + 168 / 8, pc);
}

TEST(CallersOfEntry, ContinuesAtTheVeryInstructionThatASignalInterrupted) {
  MadeObject object = program();
  object.augmentation = "zRS";
  object.functions = {{0x30000, 0x10, bytes("07 10")}, {0x40000, 0x100, restorer_program()}};
  Process process(object);
  process.push(0, at(0x40010).value);
  // The first instruction of a function: one byte before it is another one, or none. And another stack,
  // below.
  push_context(process, at(0x30000).value, 0x1000);
  const Backtrace trace = process.walk();
  EXPECT_THAT(addresses(trace), ElementsAre(0x40010, 0x30000));
  EXPECT_FALSE(trace.frames[0].interrupted);
  EXPECT_TRUE(trace.frames[0].restorer);
  EXPECT_EQ(trace.frames[0].inside(), trace.frames[0].address) << "no call ends there";
  EXPECT_TRUE(trace.frames[1].interrupted);
}

TEST(CallersOfEntry, KnowsRestorersWithoutCallFrameInformation) {
  for (const char* code : {"48 c7 c0 0f 00 00 00 0f 05", "b8 0f 00 00 00 0f 05"}) {
    MadeObject object = program();
    std::string content = object.file_bytes();
    constexpr uint64_t kRestorer = 0x500;  // in the hole before the frames
    content.replace(kRestorer, bytes(code).size(), bytes(code));
    FrameTable table(MadeObject::file_of(content));
    BufferMemory memory;
    memory.add_value({kStack}, at(kRestorer).value);
    for (uint64_t offset = 40; offset < 160; offset += 8)
      memory.add_value({kStack + 8 + offset}, uint64_t{0});
    memory.add_value({kStack + 8 + 160}, uint64_t{0x1000});
    memory.add_value({kStack + 8 + 168}, at(0x30000).value);
    Registers registers;
    registers.set(Registers::kSp, kStack);
    const Backtrace trace = callers_of_entry(
        registers, memory,
        [&](VirtAddr) -> Place {
          return {&table, kBias};
        },
        10);
    EXPECT_THAT(addresses(trace), ElementsAre(kRestorer, 0x30000)) << code;
    EXPECT_EQ(trace.end, End::outermost);
  }
}

class CountingMemory : public Memory {
 public:
  explicit CountingMemory(const Memory& below) : below_(below) {}
  size_t read(VirtAddr address, std::span<std::byte> out) const override {
    ++reads;
    return below_.read(address, out);
  }
  mutable int reads = 0;

 private:
  const Memory& below_;
};

TEST(CallersOfEntry, ReadsTheStackInLargePieces) {
  FrameTable table(program().file());
  BufferMemory memory;
  constexpr size_t kFrames = 400;
  std::vector<uint64_t> words(4 * kFrames + 4, at(0x10010).value);
  words[4 * kFrames] = at(0x30010).value;
  memory.add({kStack}, std::as_bytes(std::span(words)));
  const CountingMemory counted(memory);
  Registers registers;
  registers.set(Registers::kSp, kStack);
  const Backtrace trace = callers_of_entry(
      registers, counted,
      [&](VirtAddr) -> Place {
        return {&table, kBias};
      },
      1000);
  EXPECT_EQ(trace.frames.size(), kFrames + 1);
  EXPECT_EQ(trace.end, End::outermost);
  EXPECT_LE(counted.reads, 2);
}

}  // namespace
}  // namespace rtrace::unwind::unwinder_test
