#include "rtrace/unwind/frame_table.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>

#include "rtrace/base/error.h"
#include "unwind/made_object.h"

namespace rtrace::unwind::frame_table_test {
namespace {

using Kind = Rule::Kind;

// A row as text: "rsp+8 rip@-8 rbp@-16".
std::string name_of(size_t number) {
  static const char* const kNames[] = {"rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8",
                                       "r9",  "r10", "r11", "r12", "r13", "r14", "r15", "rip"};
  return kNames[number];
}

std::string text_of(const Rule& rule) {
  switch (rule.kind) {
    case Kind::unspecified:
      return "";
    case Kind::undefined:
      return "=?";
    case Kind::same:
      return "=same";
    case Kind::at_offset:
      return fmt::format("@{}", rule.offset);
    case Kind::offset:
      return fmt::format("=cfa{:+}", rule.offset);
    case Kind::in_register:
      return "=" + name_of(rule.reg);
    case Kind::at_expression:
      return fmt::format("@[{}]", rule.expression.size());
    case Kind::expression:
      return fmt::format("=[{}]", rule.expression.size());
  }
  return "";
}

std::string text_of(const Row* row) {
  if (row == nullptr) return "none";
  std::string text = row->cfa.kind == Kind::in_register
                         ? fmt::format("{}{:+}", name_of(row->cfa.reg), row->cfa.offset)
                         : "cfa" + text_of(row->cfa);
  for (size_t i = 0; i < row->rules.size(); ++i)
    if (row->rules[i].kind != Kind::unspecified) text += " " + name_of(i) + text_of(row->rules[i]);
  return text + (row->signal_frame ? " signal" : "");
}

constexpr uint64_t kFunction = 0x10000;

std::string row_at(const MadeObject& object, uint64_t address) {
  FrameTable table(object.file());
  return text_of(table.find({address}));
}

struct ProgramRow {
  const char* what;
  const char* program;
  uint64_t offset;
  const char* row;
};

TEST(FrameTable, RunsEachInstructionUpToTheAddress) {
  const ProgramRow rows[] = {
      {"nothing", "00", 5, "rsp+8 rip@-8"},
      {"push rbp, not run yet", "41 0e 10 86 02", 0, "rsp+8 rip@-8"},
      {"push rbp", "41 0e 10 86 02", 1, "rsp+16 rbp@-16 rip@-8"},
      {"mov rsp, rbp", "41 0e 10 86 02 43 0d 06", 4, "rbp+16 rbp@-16 rip@-8"},
      {"advance_loc1", "02 10 0e 20", 0x10, "rsp+32 rip@-8"},
      {"advance_loc2", "03 00 01 0e 20", 0xff, "rsp+8 rip@-8"},
      {"advance_loc4", "04 00 02 00 00 0e 20", 0x200, "rsp+32 rip@-8"},
      {"set_loc", "01 20 00 01 00 00 00 00 00 0e 20", 0x20, "rsp+32 rip@-8"},
      {"restore", "86 02 c6", 0, "rsp+8 rip@-8"},
      {"restore_extended", "90 03 06 10", 0, "rsp+8 rip@-8"},
      {"remember and restore", "0a 0e 40 83 05 0b", 0, "rsp+8 rip@-8"},
      {"undefined and same", "07 03 08 0c", 0, "rsp+8 rbx=? r12=same rip@-8"},
      {"in a register", "09 10 0a", 0, "rsp+8 rip=r10"},
      {"offset_extended", "05 0f 04", 0, "rsp+8 r15@-32 rip@-8"},
      {"offset_extended_sf", "11 0f 7e", 0, "rsp+8 r15@16 rip@-8"},
      {"GNU_negative_offset_extended", "2f 0f 02", 0, "rsp+8 r15@16 rip@-8"},
      {"val_offset", "14 07 02", 0, "rsp+8 rsp=cfa-16 rip@-8"},
      {"val_offset_sf", "15 07 7e", 0, "rsp+8 rsp=cfa+16 rip@-8"},
      {"def_cfa_sf", "12 06 7e", 0, "rbp+16 rip@-8"},
      {"def_cfa_offset_sf", "13 7c", 0, "rsp+32 rip@-8"},
      {"expressions", "0f 02 77 08 10 03 01 30 16 07 02 77 00", 0, "cfa=[2] rbx@[1] rsp=[2] rip@-8"},
      {"GNU_args_size", "2e 80 01 0e 18", 0, "rsp+24 rip@-8"},
      {"a vector register", "91 01 11 11 7f", 0, "rsp+8 rip@-8"},
  };
  for (const ProgramRow& row : rows) {
    MadeObject object;
    object.functions = {{kFunction, 0x1000, bytes(row.program)}};
    EXPECT_EQ(row_at(object, kFunction + row.offset), row.row) << row.what;
  }
}

TEST(FrameTable, DeclinesWhatItDoesNotUnderstand) {
  const char* const programs[] = {
      "3f ; unknown",
      "0b ; restore_state without remember_state",
      "0c 30 08 ; a register that no caller has",
      "0f 70 77 08 ; an expression that goes on behind the end",
      "0f 01 77 0e 10 ; an offset to what is no register",
      "09 10 20 ; in a register that no caller has",
  };
  for (const char* program : programs) {
    MadeObject object;
    object.functions = {{kFunction, 0x1000, bytes(program)}};
    EXPECT_EQ(row_at(object, kFunction + 4), "none") << program;
  }
  MadeObject endless;
  endless.functions = {{kFunction, 0x1000, std::string(100, '\x0a')}};
  EXPECT_EQ(row_at(endless, kFunction), "none") << "states remembered without end";
}

class Sections : public testing::TestWithParam<MadeObject::Kind> {};

TEST_P(Sections, HoldTheFunctionThatContainsTheAddress) {
  MadeObject object;
  object.kind = GetParam();
  for (uint64_t i = 0; i < 5; ++i)
    object.functions.push_back(
        {kFunction + i * 0x100, 0x80, "\x0e" + std::string(1, static_cast<char>(16 + i))});
  std::swap(object.functions[1], object.functions[3]);
  if (object.kind == MadeObject::Kind::indexed)  // linkers sort the index
    std::swap(object.functions[1], object.functions[3]);
  FrameTable table(object.file());
  EXPECT_EQ(text_of(table.find({kFunction - 1})), "none");
  for (uint64_t i = 0; i < 5; ++i) {
    const std::string row = fmt::format("rsp+{} rip@-8", 16 + i);
    EXPECT_EQ(text_of(table.find({kFunction + i * 0x100})), row);
    EXPECT_EQ(text_of(table.find({kFunction + i * 0x100 + 0x7f})), row);
    EXPECT_EQ(text_of(table.find({kFunction + i * 0x100 + 0x80})), "none") << "between two functions";
  }
}

INSTANTIATE_TEST_SUITE_P(FrameTable, Sections,
                         testing::Values(MadeObject::Kind::indexed, MadeObject::Kind::section,
                                         MadeObject::Kind::debug_frame));

TEST(FrameTable, KnowsSignalFramesByTheirAugmentation) {
  MadeObject object;
  object.augmentation = "zRS";
  object.functions = {{kFunction, 0x10, ""}};
  EXPECT_EQ(row_at(object, kFunction), "rsp+8 rip@-8 signal");
  object.augmentation = "zRX";
  EXPECT_EQ(row_at(object, kFunction), "none") << "unknown letters have data of unknown size";
}

TEST(FrameTable, ReadsWhatTheCompilerMadeOfThisProgram) {
  FrameTable table(elf::ElfFile::open("/proc/self/exe"));
  const auto& ranges = table.file().frame_ranges();
  ASSERT_GT(ranges.size(), 1000u);
  size_t described = 0;
  for (const ElfRange& range : ranges) described += table.find(range.begin) != nullptr;
  EXPECT_EQ(described, ranges.size());
}

// Whatever the bytes are: an answer, in bounded time.
TEST(FrameTable, SurvivesDamage) {
  MadeObject object;
  for (uint64_t i = 0; i < 8; ++i)
    object.functions.push_back({kFunction + i * 0x100, 0x100,
                                bytes("41 0e 10 86 02 43 0d 06 0a 02 10 0f 03 77 08 06 0b 16 07 02 77 00")});
  std::mt19937 random(1);
  for (auto kind : {MadeObject::Kind::indexed, MadeObject::Kind::section, MadeObject::Kind::debug_frame}) {
    object.kind = kind;
    const std::string sound = object.file_bytes();
    for (int round = 0; round < 1000; ++round) {
      std::string damaged = sound;
      for (unsigned i = 0; i <= random() % 8; ++i)
        damaged[MadeObject::kFrames + random() % (damaged.size() - MadeObject::kFrames)] =
            static_cast<char>(random());
      try {
        FrameTable table(MadeObject::file_of(damaged));
        for (int question = 0; question < 8; ++question) table.find({kFunction + random() % 0x1000});
      } catch (const Error&) {  // no object any more
      }
    }
  }
}

}  // namespace
}  // namespace rtrace::unwind::frame_table_test
