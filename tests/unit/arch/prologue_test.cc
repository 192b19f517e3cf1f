#include "rtrace/arch/prologue.h"

#include <gmock/gmock.h>

#include <map>

#include "arch/code_text.h"
#include "arch/prologue_check.h"

namespace rtrace::arch::prologue_test {
namespace {

constexpr VirtAddr kFrom{0x7f0000001000};
constexpr VirtAddr kTo{0x7f0000101000};   // kFrom + 0x100000
constexpr VirtAddr kFar{0x7e0000000000};  // out of rel32 range of kFrom
constexpr VirtAddr kLow{0x401000};        // a return address here sign-extends
constexpr uint64_t kAll = ~uint64_t{0};   // all of the bytes are the function's

struct Row {
  const char* code;
  uint64_t size;  // of the function
  VirtAddr from, to;
  const char* expected;
  uint64_t at;  // from `from`
  uint8_t covered;
  std::vector<ResumePoint> points;
  bool calls = false;
};

const Row kRows[] = {
    {"55 ; push rbp\n"
     "48 89 e5 ; mov rbp, rsp\n"
     "53 ; push rbx\n"
     "90",
     kAll,
     kFrom,
     kTo,
     "55              ; push rbp\n"
     "48 89 e5        ; mov rbp, rsp\n"
     "53              ; push rbx\n"
     "e9 fb ff ef ff  ; jmp from + 5",
     0,
     5,
     {{0, kFrom, 0}, {1, kFrom + 1, 0}, {4, kFrom + 4, 0}, {5, kFrom + 5, 0}}},
    {"f3 0f 1e fa ; endbr64\n"
     "55 ; push rbp\n"
     "48 8d 2d f4 0f 00 00 ; lea rbp, [from + 0x1000]",
     kAll,
     kFrom,
     kTo,
     "55                    ; push rbp\n"
     "48 8d 2d f8 0f f0 ff  ; lea rbp, [from + 0x1000]\n"
     "e9 ff ff ef ff        ; jmp from + 12",
     4,
     8,
     {{0, kFrom + 4, 0}, {1, kFrom + 5, 0}, {8, kFrom + 12, 0}}},
    {"85 ff ; test edi, edi\n"
     "74 10 ; je from + 0x14\n"
     "89 f8 ; mov eax, edi",
     kAll,
     kFrom,
     kTo,
     "85 ff              ; test edi, edi\n"
     "0f 84 0c 00 f0 ff  ; je from + 0x14\n"
     "89 f8              ; mov eax, edi\n"
     "e9 f7 ff ef ff     ; jmp from + 6",
     0,
     6,
     {{0, kFrom, 0}, {2, kFrom + 2, 0}, {8, kFrom + 4, 0}, {10, kFrom + 6, 0}}},
    {"85 ff ; test edi, edi\n"
     "74 10 ; je, far away\n"
     "89 f8 ; mov eax, edi",
     kAll,
     kFrom,
     kFar,
     "85 ff                                      ; test edi, edi\n"
     "74 05                                      ; je over\n"
     "e9 0e 00 00 00                             ; jmp to the mov\n"
     "ff 25 00 00 00 00 14 10 00 00 00 7f 00 00  ; jmp [rip], from + 0x14\n"
     "89 f8                                      ; mov eax, edi\n"
     "ff 25 00 00 00 00 06 10 00 00 00 7f 00 00  ; jmp [rip], from + 6",
     0,
     6,
     {{0, kFrom, 0},
      {2, kFrom + 2, 0},
      {4, kFrom + 4, 0},
      {9, kFrom + 0x14, 0},
      {23, kFrom + 4, 0},
      {25, kFrom + 6, 0}}},
    {"ff cf ; dec edi\n"
     "75 fc ; jne from\n"
     "89 f8 ; mov eax, edi",
     kAll,
     kFrom,
     kTo,
     "ff cf              ; dec edi\n"
     "0f 85 f8 ff ff ff  ; jne to the dec\n"
     "89 f8              ; mov eax, edi\n"
     "e9 f7 ff ef ff     ; jmp from + 6",
     0,
     6,
     {{0, kFrom, 0}, {2, kFrom + 2, 0}, {8, kFrom + 4, 0}, {10, kFrom + 6, 0}}},
    {"f3 0f 1e fa ; endbr64\n"
     "ff cf ; dec edi\n"
     "75 f8 ; jne from\n"
     "c3 ; ret",
     kAll,
     kFrom,
     kFar,
     "ff cf              ; dec edi\n"
     "0f 85 f8 ff ff ff  ; jne to the dec\n"
     "c3                 ; ret",
     4,
     5,
     {{0, kFrom + 4, 0}, {2, kFrom + 6, 0}, {8, kFrom + 8, 0}}},
    {"90 ; nop\n"
     "ff c8 ; dec eax\n"
     "e2 fc ; loop from + 1\n",
     kAll,
     kFrom,
     kTo,
     "90              ; nop\n"
     "ff c8           ; dec eax\n"
     "e2 05           ; loop over\n"
     "e9 fb ff ef ff  ; jmp from + 5\n"
     "e9 f2 ff ff ff  ; jmp to the dec",
     0,
     5,
     {{0, kFrom, 0}, {1, kFrom + 1, 0}, {3, kFrom + 3, 0}, {5, kFrom + 5, 0}, {10, kFrom + 1, 0}}},
    {"e3 01 ; jrcxz from + 3\n"
     "c3 ; ret\n"
     "89 f8 ; mov eax, edi",
     kAll,
     kFrom,
     kTo,
     "e3 05           ; jrcxz over\n"
     "e9 05 00 00 00  ; jmp to the ret\n"
     "e9 01 00 00 00  ; jmp to the mov\n"
     "c3              ; ret\n"
     "89 f8           ; mov eax, edi\n"
     "e9 f1 ff ef ff  ; jmp from + 5",
     0,
     5,
     {{0, kFrom, 0},
      {2, kFrom + 2, 0},
      {7, kFrom + 3, 0},
      {12, kFrom + 2, 0},
      {13, kFrom + 3, 0},
      {15, kFrom + 5, 0}}},
    {"eb 01 ; jmp over a byte that nothing reaches\n"
     "cc ; int3\n"
     "89 f8 ; mov eax, edi",
     kAll,
     kFrom,
     kTo,
     "e9 00 00 00 00  ; jmp to the mov\n"
     "89 f8           ; mov eax, edi\n"
     "e9 f9 ff ef ff  ; jmp from + 5",
     0,
     5,
     {{0, kFrom, 0}, {5, kFrom + 3, 0}, {7, kFrom + 5, 0}}},
    {"53 ; push rbx\n"
     "e8 fa 0f 00 00 ; call from + 0x1000",
     kAll,
     kFrom,
     kTo,
     "53                       ; push rbx\n"
     "68 06 10 00 00           ; push low half of from + 6\n"
     "c7 44 24 04 00 7f 00 00  ; mov dword [rsp + 4], high half\n"
     "e9 ed 0f f0 ff           ; jmp from + 0x1000",
     0,
     6,
     {{0, kFrom, 0}, {1, kFrom + 1, 0}, {6, kFrom + 1, 8}, {14, kFrom + 1, 8}},
     true},
    {"e8 fb ff ff ff ; call from: a recursion, which is a call like any other",
     kAll,
     kLow,
     kLow + 0x100000,
     "68 05 10 40 00  ; push from + 5\n"
     "e9 f6 ff ef ff  ; jmp from",
     0,
     5,
     {{0, kLow, 0}, {5, kLow, 8}},
     true},
    {"48 83 ec 08 ; sub rsp, 8\n"
     "ff d0 ; call rax",
     kAll,
     kLow,
     kFar,
     "48 83 ec 08     ; sub rsp, 8\n"
     "68 06 10 40 00  ; push from + 6\n"
     "ff e0           ; jmp rax",
     0,
     6,
     {{0, kLow, 0}, {4, kLow + 4, 0}, {9, kLow + 4, 8}},
     true},
    {"eb 20 ; jmp from + 0x22\n"
     "0f 1f 44 00 00 ; padding",
     2,
     kFrom,
     kTo,
     "e9 1d 00 f0 ff ; jmp from + 0x22",
     0,
     5,
     {{0, kFrom, 0}}},
    {"ff 25 fa 0f 00 00 ; jmp [from + 0x1000]", kAll, kFrom, kTo, "ff 25 fa 0f f0 ff", 0, 6, {{0, kFrom, 0}}},
    {"c3 cc cc cc cc ; ret, int3", 1, kFrom, kFar, "c3", 0, 5, {{0, kFrom, 0}}},
    {"c3 ; ret\n"
     "66 66 2e 0f 1f 84 00 00 00 00 00 ; the first of the nops that pad to the next function\n"
     "0f 1f 40 00",
     1,
     kFrom,
     kFar,
     "c3",
     0,
     5,
     {{0, kFrom, 0}}},
    {"f3 0f 1e fa c3 ; endbr64, ret\n"
     "66 0f 1f 44 00 00",
     5,
     kFrom,
     kFar,
     "c3",
     4,
     5,
     {{0, kFrom + 4, 0}}},
    {"31 c0 c3 90 90 ; xor eax, eax; ret; nop; nop",
     3,
     kFrom,
     kFar,
     "31 c0 c3",
     0,
     5,
     {{0, kFrom, 0}, {2, kFrom + 2, 0}}},
    {"31 c0 c3 90 90 ; the same, of unknown size",
     kAll,
     kFrom,
     kFar,
     "31 c0 c3",
     0,
     5,
     {{0, kFrom, 0}, {2, kFrom + 2, 0}}},
    {"31 c0 ; xor eax, eax\n"
     "0f 1f 00 ; a nop that is run: the function falls into the next one",
     2,
     kFrom,
     kTo,
     "31 c0 0f 1f 00 e9 fb ff ef ff",
     0,
     5,
     {{0, kFrom, 0}, {2, kFrom + 2, 0}, {5, kFrom + 5, 0}}},
    {"0f 1f 44 00 00 ; the nop of a patchable function\n"
     "55",
     kAll,
     kFrom,
     kTo,
     "0f 1f 44 00 00 e9 fb ff ef ff",
     0,
     5,
     {{0, kFrom, 0}, {5, kFrom + 5, 0}}},
    {"0f 0b 66 90 90 ; ud2", 2, kFrom, kTo, "0f 0b", 0, 5, {{0, kFrom, 0}}},
    {"b8 27 00 00 00 ; mov eax, 39\n"
     "0f 05 ; syscall: not covered",
     kAll,
     kFrom,
     kTo,
     "b8 27 00 00 00 e9 fb ff ef ff",
     0,
     5,
     {{0, kFrom, 0}, {5, kFrom + 5, 0}}},
    {"31 c0 0f 05 c3 ; xor eax, eax; syscall; ret",
     kAll,
     kFrom,
     kTo,
     "31 c0 0f 05 c3",
     0,
     5,
     {{0, kFrom, 0}, {2, kFrom + 2, 0}, {4, kFrom + 4, 0}}},
};

TEST(Prologue, BytesAndResumePoints) {
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.code);
    auto bytes = assemble(row.code);
    EntryCode entry{bytes, row.from, std::min<uint64_t>(row.size, bytes.size())};
    auto result = relocate_prologue(entry, row.to);
    ASSERT_TRUE(std::holds_alternative<Prologue>(result)) << std::get<Refused>(result).reason;
    const auto& prologue = std::get<Prologue>(result);
    auto expected = assemble(row.expected);
    EXPECT_TRUE(prologue.copy.code == expected) << "wanted:\n"
                                                << listing(expected, row.to) << "got:\n"
                                                << listing(prologue.copy.code, row.to);
    EXPECT_TRUE(prologue.copy.points == row.points);
    EXPECT_EQ(prologue.at - row.from, row.at);
    EXPECT_EQ(prologue.covered, row.covered);
    EXPECT_EQ(prologue.calls, row.calls);
    EXPECT_LE(prologue.copy.code.size(), kMaxPrologue);
    EXPECT_EQ(check_prologue(entry, prologue, row.to), "");
  }
}

struct RefusedRow {
  const char* code;
  uint64_t size;
  VirtAddr to;
  const char* reason;
};

TEST(Prologue, RefusalsNameTheReasonAndQuoteTheInstruction) {
  const RefusedRow rows[] = {
      {"c3 cc cc", 1, kTo, "only 3 bytes up to the next function: c3  ret"},
      {"f3 0f 1e fa c3", 5, kTo, "only 1 bytes up to the next function: c3  ret"},
      {"", 0, kTo, "only 0 bytes up to the next function"},
      {"31 c0 c3 55 53", 3, kTo, "only 3 bytes up to other code: 55  push rbp"},
      {"c3 f3 0f 1e fa ; a function without a name behind it", 1, kTo,
       "only 1 bytes up to other code: f3 0f 1e fa  endbr64"},
      {"c3 f3 0f 1e fa ; the same, of unknown size", kAll, kTo,
       "code that no instruction before it leads to: f3 0f 1e fa  endbr64"},
      {"eb 10 89 f8 c3", kAll, kTo, "code that no instruction before it leads to: 89 f8  mov eax, edi"},
      {"31 c0 c3 31 c0", kAll, kTo, "code that no instruction before it leads to: 31 c0  xor eax, eax"},
      {"ff d0 90 90 90", kAll, kTo, "its return address lies inside the jump: ff d0  call rax"},
      {"53 ff d0 5b c3", kAll, kTo, "its return address lies inside the jump: ff d0  call rax"},
      {"53 e8 fc ff ff ff", kAll, kTo, "it leads to inside the jump: e8 fc ff ff ff  call 0x7f0000001002"},
      {"74 01 89 f8 90", kAll, kTo, "it leads to inside the jump: 74 01  je 0x7f0000001003"},
      {"f3 0f 1e fa 75 fb 89 f8 90", kAll, kTo, "it leads to inside the jump: 75 fb  jne 0x7f0000001001"},
      {"85 c0 74 00 f0 ff 07 ; je to behind a lock prefix: at an instruction, and inside none", kAll, kTo,
       ""},
      {"85 c0 74 01 f0 ff 07 ; je over the lock prefix", kAll, kTo,
       "it leads to inside the jump: 74 01  je 0x7f0000001005"},
      {"b0 27 90 0f 05", kAll, kTo, "a system call that would be restarted inside the jump: 0f 05  syscall"},
      {"b0 27 90 cd 80", kAll, kTo, "a system call that would be restarted inside the jump: cd 80  int 0x80"},
      {"90 cc 90 90 90", kAll, kTo, "an int3 of the program's own: cc  int3"},
      {"06 90 90 90 90", kAll, kTo, "no instruction that can be moved: 06 90 90 90 90  (bad)"},
      {"53 66 e9 00 00 00 00", kAll, kTo, "no instruction that can be moved: 66 e9"},
      {"53 48 8b 05 00 00 00 00", kAll, kFar, "its operand is out of reach from the copy: 48 8b 05"},
      {"53 51 57 ff d4", kAll, kTo, "it calls what rsp holds: ff d4  call rsp"},
      {"90 90 90 ff 18", kAll, kTo, "a far call: ff 18"},
  };
  for (const RefusedRow& row : rows) {
    SCOPED_TRACE(row.code);
    auto bytes = assemble(row.code);
    auto result = relocate_prologue({bytes, kFrom, std::min<uint64_t>(row.size, bytes.size())}, row.to);
    if (*row.reason == '\0') {
      EXPECT_TRUE(std::holds_alternative<Prologue>(result)) << std::get<Refused>(result).reason;
      continue;
    }
    ASSERT_TRUE(std::holds_alternative<Refused>(result))
        << listing(std::get<Prologue>(result).copy.code, row.to);
    EXPECT_THAT(std::get<Refused>(result).reason, testing::StartsWith(row.reason));
  }
}

TEST(Prologue, TheWindowIsEnough) {
  auto bytes = assemble(
      "f3 0f 1e fa ; endbr64\n"
      "90 90 90 90\n"
      "2e 64 f0 48 81 84 88 00 00 00 00 01 00 00 00 ; lock add qword fs:[...], 1: 15 bytes");
  bytes.resize(200, std::byte{0x90});
  auto all = relocate_prologue({bytes, kFrom, bytes.size()}, kTo);
  auto window = relocate_prologue({std::span(bytes).first(kEntryWindow), kFrom, bytes.size()}, kTo);
  ASSERT_EQ(all.index(), window.index());
  ASSERT_TRUE(std::holds_alternative<Prologue>(all)) << std::get<Refused>(all).reason;
  EXPECT_TRUE(std::get<Prologue>(all) == std::get<Prologue>(window));
}

TEST(Prologue, TheLongestFitsTheBound) {
  for (const char* code : {"e3 7e e2 7c ff 94 24 00 00 01 00", "70 70 71 71 e3 7f", "67 e3 70 67 e3 70",
                           "70 70 71 71 66 66 66 2e 0f 1f 84 00 00 00 00 00"}) {
    auto bytes = assemble(code);
    auto result = relocate_prologue({bytes, kFrom, bytes.size()}, kFar);
    ASSERT_TRUE(std::holds_alternative<Prologue>(result)) << std::get<Refused>(result).reason;
    EXPECT_LE(std::get<Prologue>(result).copy.code.size(), kMaxPrologue);
  }
}

TEST(Prologue, AThreadGoesOnAtTheSameInstructionOfTheCopy) {
  // endbr64; test edi, edi; je from + 0x18, which grows; mov eax, edi
  const auto bytes = assemble("f3 0f 1e fa 85 ff 74 10 89 f8 90 90 90 90 90 90 90 90 90 90 90 90 90 90 90");
  const auto result = relocate_prologue({bytes, kFrom, bytes.size()}, kTo);
  ASSERT_TRUE(std::holds_alternative<Prologue>(result)) << std::get<Refused>(result).reason;
  std::map<unsigned, unsigned> found;
  for (unsigned at = 0; at < 16; ++at)
    if (const auto offset = offset_in_copy(std::get<Prologue>(result), kFrom + at)) found[at] = *offset;
  EXPECT_EQ(found, (std::map<unsigned, unsigned>{{4, 0}, {6, 2}, {8, 8}}));
}

TEST(Prologue, AShortJumpNeedsTwoBytes) {
  const auto bytes = assemble("48 89 f8 ; mov rax, rdi\n48 83 fa 40 ; cmp rdx, 64\nc3");
  const auto result = relocate_prologue({bytes, kFrom, bytes.size(), kShortJump}, kTo);
  ASSERT_TRUE(std::holds_alternative<Prologue>(result)) << std::get<Refused>(result).reason;
  EXPECT_EQ(std::get<Prologue>(result).covered, 3);
  const auto single = assemble("c3");
  EXPECT_EQ(std::get<Refused>(relocate_prologue({single, kFrom, 1, kShortJump}, kTo)).reason,
            "only 1 bytes up to the next function: c3  ret");
}

}  // namespace
}  // namespace rtrace::arch::prologue_test
