#include "rtrace/arch/relocate.h"

#include <gmock/gmock.h>

#include "arch/code_text.h"

namespace rtrace::arch::relocate_test {
namespace {

using testing::HasSubstr;

constexpr VirtAddr kFrom{0x7f0000001000};
constexpr VirtAddr kTo{0x7f0000101000};   // kFrom + 0x100000
constexpr VirtAddr kFar{0x7e0000000000};  // out of rel32 range of kFrom
constexpr VirtAddr kLow{0x401000};        // a return address here sign-extends

struct Row {
  const char* code;
  VirtAddr from, to;
  const char* expected;
  std::vector<ResumePoint> points;
};

const Row kRows[] = {
    {"48 83 ec 18 ; sub rsp, 0x18",
     kFrom,
     kTo,
     "48 83 ec 18     ; sub rsp, 0x18\n"
     "e9 fb ff ef ff  ; jmp from + 4",
     {{0, kFrom, 0}, {4, kFrom + 4, 0}}},
    {"55 ; push rbp, far away",
     kFrom,
     kFar,
     "55                 ; push rbp\n"
     "ff 25 00 00 00 00  ; jmp [rip]\n"
     "01 10 00 00 00 7f 00 00",
     {{0, kFrom, 0}, {1, kFrom + 1, 0}}},
    {"48 8d 05 10 00 20 00 ; lea rax, [rip + 0x200010]",
     kFrom,
     kTo,
     "48 8d 05 10 00 10 00  ; lea rax, [rip + 0x100010]\n"
     "e9 fb ff ef ff        ; jmp from + 7",
     {{0, kFrom, 0}, {7, kFrom + 7, 0}}},
    {"80 3d 10 00 00 00 07 ; cmp byte [rip + 0x10], 7",
     kFrom,
     kTo,
     "80 3d 10 00 f0 ff 07  ; cmp byte [rip - 0xffff0], 7\n"
     "e9 fb ff ef ff        ; jmp from + 7",
     {{0, kFrom, 0}, {7, kFrom + 7, 0}}},
    {"eb 10 ; jmp from + 0x12", kFrom, kTo, "e9 0d 00 f0 ff ; jmp from + 0x12", {{0, kFrom, 0}}},
    {"f2 e9 00 01 00 00 ; bnd jmp", kFrom, kTo, "e9 01 01 f0 ff ; jmp from + 0x106", {{0, kFrom, 0}}},
    {"e9 fb 0f 00 00 ; jmp, far away",
     kFrom,
     kFar,
     "ff 25 00 00 00 00 00 20 00 00 00 7f 00 00 ; jmp [rip], from + 0x1000",
     {{0, kFrom, 0}}},
    {"74 10 ; je from + 0x12",
     kFrom,
     kTo,
     "0f 84 0c 00 f0 ff  ; je from + 0x12\n"
     "e9 f7 ff ef ff     ; jmp from + 2",
     {{0, kFrom, 0}, {6, kFrom + 2, 0}}},
    {"74 10 ; je, far away",
     kFrom,
     kFar,
     "74 0e                                      ; je over\n"
     "ff 25 00 00 00 00 02 10 00 00 00 7f 00 00  ; jmp [rip], from + 2\n"
     "ff 25 00 00 00 00 12 10 00 00 00 7f 00 00  ; jmp [rip], from + 0x12",
     {{0, kFrom, 0}, {2, kFrom + 2, 0}, {16, kFrom + 0x12, 0}}},
    {"e2 f0 ; loop from - 14",
     kFrom,
     kTo,
     "e2 05           ; loop over\n"
     "e9 fb ff ef ff  ; jmp from + 2\n"
     "e9 e6 ff ef ff  ; jmp from - 14",
     {{0, kFrom, 0}, {2, kFrom + 2, 0}, {7, kFrom - 14, 0}}},
    {"67 e3 10 ; jecxz from + 0x13",
     kFrom,
     kTo,
     "67 e3 05        ; jecxz over\n"
     "e9 fb ff ef ff  ; jmp from + 3\n"
     "e9 06 00 f0 ff  ; jmp from + 0x13",
     {{0, kFrom, 0}, {3, kFrom + 3, 0}, {8, kFrom + 0x13, 0}}},
    {"c7 f8 10 00 00 00 ; xbegin from + 0x16",
     kFrom,
     kTo,
     "c7 f8 10 00 f0 ff  ; xbegin from + 0x16\n"
     "e9 fb ff ef ff     ; jmp from + 6",
     {{0, kFrom, 0}, {6, kFrom + 6, 0}}},
    {"e8 fb 0f 00 00 ; call from + 0x1000",
     kFrom,
     kTo,
     "68 05 10 00 00           ; push low half of from + 5\n"
     "c7 44 24 04 00 7f 00 00  ; mov dword [rsp + 4], high half\n"
     "e9 ee 0f f0 ff           ; jmp from + 0x1000",
     {{0, kFrom, 0}, {5, kFrom, 8}, {13, kFrom, 8}}},
    {"e8 fb 0f 00 00 ; call, a return address that sign-extends",
     kLow,
     kLow + 0x100000,
     "68 05 10 40 00  ; push from + 5\n"
     "e9 f6 0f f0 ff  ; jmp from + 0x1000",
     {{0, kLow, 0}, {5, kLow, 8}}},
    {"ff d0 ; call rax", kLow, kFar, "68 02 10 40 00 ff e0 ; push, jmp rax", {{0, kLow, 0}, {5, kLow, 8}}},
    {"41 ff 14 24 ; call [r12]: not rsp",
     kLow,
     kFar,
     "68 04 10 40 00 41 ff 24 24 ; push, jmp [r12]",
     {{0, kLow, 0}, {5, kLow, 8}}},
    {"ff 14 24 ; call [rsp]",
     kLow,
     kFar,
     "68 03 10 40 00 ff a4 24 08 00 00 00 ; push, jmp [rsp + 8]",
     {{0, kLow, 0}, {5, kLow, 8}}},
    {"ff 54 c4 78 ; call [rsp + rax * 8 + 0x78]",
     kLow,
     kFar,
     "68 04 10 40 00 ff a4 c4 80 00 00 00 ; push, jmp [rsp + rax * 8 + 0x80]",
     {{0, kLow, 0}, {5, kLow, 8}}},
    {"64 ff 14 25 10 00 00 00 ; call fs:[0x10]",
     kLow,
     kFar,
     "68 08 10 40 00 64 ff 24 25 10 00 00 00 ; push, jmp fs:[0x10]",
     {{0, kLow, 0}, {5, kLow, 8}}},
    {"ff 15 fa 0f 00 00 ; call [rip + 0xffa]",
     kLow,
     kLow + 0x100000,
     "68 06 10 40 00 ff 25 f5 0f f0 ff ; push, jmp [rip]",
     {{0, kLow, 0}, {5, kLow, 8}}},
    {"f2 ff 25 f9 0f 00 00 ; bnd jmp [rip + 0xff9]",
     kFrom,
     kTo,
     "f2 ff 25 f9 0f f0 ff ; bnd jmp [rip]",
     {{0, kFrom, 0}}},
    {"3e ff e0 ; notrack jmp rax", kFrom, kFar, "3e ff e0", {{0, kFrom, 0}}},
    {"ff e4 ; jmp rsp", kFrom, kFar, "ff e4", {{0, kFrom, 0}}},
    {"c3 ; ret", kFrom, kFar, "c3", {{0, kFrom, 0}}},
    {"f3 c3 ; rep ret", kFrom, kFar, "f3 c3", {{0, kFrom, 0}}},
    {"c2 10 00 ; ret 0x10", kFrom, kFar, "c2 10 00", {{0, kFrom, 0}}},
    {"0f 0b ; ud2", kFrom, kTo, "0f 0b", {{0, kFrom, 0}}},
    {"f4 ; hlt", kFrom, kTo, "f4", {{0, kFrom, 0}}},
    {"cc ; int3", kFrom, kTo, "cc e9 fb ff ef ff ; int3, jmp from + 1", {{0, kFrom, 0}, {1, kFrom + 1, 0}}},
    {"0f 05 ; syscall",
     kFrom,
     kTo,
     "0f 05 e9 fb ff ef ff ; syscall, jmp from + 2",
     {{0, kFrom, 0}, {2, kFrom + 2, 0}}},
};

TEST(Relocate, BytesAndResumePoints) {
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.code);
    auto bytes = assemble(row.code);
    auto result = relocate(bytes, row.from, row.to);
    ASSERT_TRUE(std::holds_alternative<OutOfLine>(result)) << std::get<Refused>(result).reason;
    const auto& copy = std::get<OutOfLine>(result);
    auto expected = assemble(row.expected);
    EXPECT_TRUE(copy.code == expected) << "wanted:\n"
                                       << listing(expected, row.to) << "got:\n"
                                       << listing(copy.code, row.to);
    EXPECT_TRUE(copy.points == row.points);
    EXPECT_LE(copy.code.size(), out_of_line_bound(bytes));
    EXPECT_LE(out_of_line_bound(bytes), kMaxOutOfLine);
  }
}

TEST(Relocate, OnlyTheFirstInstructionIsMoved) {
  auto one = relocate(assemble("55"), kFrom, kTo);
  auto more = relocate(assemble("55 48 89 e5 0f 0b"), kFrom, kTo);
  EXPECT_TRUE(std::get<OutOfLine>(one) == std::get<OutOfLine>(more));
}

struct RefusedRow {
  const char* code;
  VirtAddr to;
  const char* reason;
};

TEST(Relocate, RefusalsNameTheReasonAndQuoteTheInstruction) {
  const RefusedRow rows[] = {
      {"ff d4 ; call rsp", kTo, "it calls what rsp holds: ff d4  call rsp"},
      {"ff 54 24 f8 ; call [rsp - 8]", kTo,
       "it calls through the word that it overwrites: ff 54 24 f8  call"},
      {"ff 94 24 fc ff ff 7f ; call [rsp + 0x7ffffffc]", kTo, "its displacement cannot grow by 8: ff 94 24"},
      {"67 ff 14 24 ; call [esp]", kTo, "an operand relative to esp: 67 ff 14 24"},
      {"67 8b 05 00 00 00 00 ; mov eax, [eip]", kTo, "an operand relative to eip: 67 8b 05"},
      {"67 ff 15 00 00 00 00 ; call [eip]", kTo, "an operand relative to eip: 67 ff 15"},
      {"48 8b 05 00 00 00 00 ; mov rax, [rip]", kFar,
       "its operand is out of reach from the copy: 48 8b 05 00 00 00 00  mov rax"},
      {"ff 15 00 00 00 00 ; call [rip]", kFar, "its operand is out of reach from the copy: ff 15"},
      {"ff 25 00 00 00 00 ; jmp [rip]", kFar, "its operand is out of reach from the copy: ff 25"},
      {"c7 f8 00 00 00 00 ; xbegin", kFar, "its target is out of reach from the copy: c7 f8"},
      {"ff 18 ; far call [rax]", kTo, "a far call: ff 18"},
      {"ff 28 ; far jmp [rax]", kTo, "a far jump: ff 28"},
      {"66 e9 00 00 00 00 ; jmp rel16", kTo, "no instruction that can be moved: 66 e9"},
      {"66 c3 ; ret to 16 bits", kTo, "no instruction that can be moved: 66 c3"},
      {"06 ; invalid", kTo, "no instruction that can be moved: 06  (bad)"},
      {"48 8d 05 00 ; cut short", kTo, "no instruction that can be moved: 48 8d 05 00"},
      {"", kTo, "no instruction that can be moved"},
  };
  for (const RefusedRow& row : rows) {
    SCOPED_TRACE(row.code);
    auto result = relocate(assemble(row.code), kFrom, row.to);
    ASSERT_TRUE(std::holds_alternative<Refused>(result)) << listing(std::get<OutOfLine>(result).code, row.to);
    EXPECT_THAT(std::get<Refused>(result).reason, testing::StartsWith(row.reason));
  }
}

TEST(Relocate, ReachEndsAtTheLastRel32) {
  // lea rax, [rip]: the operand is from + 7, and from there the distance is exactly what the copy is moved
  // by.
  auto lea = assemble("48 8d 05 00 00 00 00");
  EXPECT_TRUE(std::holds_alternative<OutOfLine>(relocate(lea, kFrom, kFrom + 0x80000000)));
  EXPECT_TRUE(std::holds_alternative<Refused>(relocate(lea, kFrom, kFrom + 0x80000001)));
  EXPECT_TRUE(std::holds_alternative<OutOfLine>(relocate(lea, kFrom, kFrom - 0x7fffffff)));
  EXPECT_TRUE(std::holds_alternative<Refused>(relocate(lea, kFrom, kFrom - 0x80000000)));
}

TEST(Relocate, WhatDoesNotDecodeNeedsNoRoom) {
  EXPECT_EQ(out_of_line_bound(assemble("06")), 0u);
}

}  // namespace
}  // namespace rtrace::arch::relocate_test
