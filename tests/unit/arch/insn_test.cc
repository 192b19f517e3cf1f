#include "rtrace/arch/insn.h"

#include <gtest/gtest.h>

#include "arch/code_text.h"

namespace rtrace::arch::insn_test {
namespace {

constexpr VirtAddr kAt{0x401000};
using Kind = Insn::Kind;

struct Row {
  const char* code;
  Kind kind;
  uint8_t length;
  uint64_t target = 0;     // less kAt; 0: none
  uint64_t reference = 0;  // less kAt; 0: none
  uint8_t displacement_at = 0;
};

const Row kRows[] = {
    {"55                        ; push rbp", Kind::other, 1},
    {"41 57                     ; push r15", Kind::other, 2},
    {"48 89 e5                  ; mov rbp, rsp", Kind::other, 3},
    {"48 83 ec 18               ; sub rsp, 0x18", Kind::other, 4},
    {"48 81 ec 00 01 00 00      ; sub rsp, 0x100", Kind::other, 7},
    {"66 81 c1 34 12            ; add cx, 0x1234", Kind::other, 5},
    {"90                        ; nop", Kind::nop, 1},
    {"66 90                     ; xchg ax, ax", Kind::nop, 2},
    {"41 90                     ; xchg r8d, eax", Kind::other, 2},
    {"f3 90                     ; pause", Kind::nop, 2},
    {"0f 1f 44 00 00            ; nop [rax + rax]", Kind::nop, 5},
    {"66 2e 0f 1f 84 00 00 00 00 00 ; nop cs:[rax + rax]", Kind::nop, 10},
    {"f3 0f 1e fa               ; endbr64", Kind::nop, 4},
    {"f3 48 0f 1e c8            ; rdsspq rax", Kind::other, 5},
    {"f3 48 0f ae e8            ; incsspq rax", Kind::other, 5},
    {"eb 10                     ; jmp +0x10", Kind::jump, 2, 0x12},
    {"eb fe                     ; jmp self", Kind::jump, 2, 0},
    {"e9 00 01 00 00            ; jmp", Kind::jump, 5, 0x105},
    {"f2 e9 00 01 00 00         ; bnd jmp", Kind::jump, 6, 0x106},
    {"75 f0                     ; jne", Kind::branch, 2, uint64_t(0) - 14},
    {"0f 8f 00 00 00 80         ; jg", Kind::branch, 6, 6 - 0x80000000ULL},
    {"3e 74 05                  ; je, taken hint", Kind::branch, 3, 8},
    {"c7 f8 10 00 00 00         ; xbegin", Kind::branch, 6, 0x16},
    {"c6 f8 07                  ; xabort 7", Kind::other, 3},
    {"e0 05                     ; loopne", Kind::loop, 2, 7},
    {"e3 05                     ; jrcxz", Kind::loop, 2, 7},
    {"67 e3 05                  ; jecxz", Kind::loop, 3, 8},
    {"e8 fb ff ff ff            ; call self", Kind::call, 5, 0},
    {"66 66 48 e8 10 00 00 00   ; data16 data16 rex.W call, of the TLS general dynamic sequence", Kind::call,
     8, 0x18},
    {"ff d0                     ; call rax", Kind::call_indirect, 2},
    {"41 ff 54 24 08            ; call [r12 + 8]", Kind::call_indirect, 5},
    {"ff 15 10 00 00 00         ; call [rip + 0x10]", Kind::call_indirect, 6, 0, 0x16, 2},
    {"ff 25 f0 ff ff ff         ; jmp [rip - 0x10]", Kind::jump_indirect, 6, 0, uint64_t(0) - 10, 2},
    {"f2 ff 25 10 00 00 00      ; bnd jmp [rip + 0x10]", Kind::jump_indirect, 7, 0, 0x17, 3},
    {"3e ff e0                  ; notrack jmp rax", Kind::jump_indirect, 3},
    {"ff 2d 10 00 00 00         ; far jmp [rip + 0x10]", Kind::undefined, 6, 0, 0x16, 2},
    {"c3                        ; ret", Kind::ret, 1},
    {"f3 c3                     ; rep ret", Kind::ret, 2},
    {"c2 10 00                  ; ret 0x10", Kind::ret, 3},
    {"cc                        ; int3", Kind::int3, 1},
    {"0f 05                     ; syscall", Kind::syscall, 2},
    {"0f 0b                     ; ud2", Kind::undefined, 2},
    {"f4                        ; hlt", Kind::undefined, 1},
    {"48 8d 05 10 00 00 00      ; lea rax, [rip + 0x10]", Kind::other, 7, 0, 0x17, 3},
    {"80 3d 10 00 00 00 00      ; cmp byte [rip + 0x10], 0: an immediate behind the displacement",
     Kind::other, 7, 0, 0x17, 2},
    {"81 3d 10 00 00 00 01 02 03 04 ; cmp dword [rip + 0x10], imm32", Kind::other, 10, 0, 0x1a, 2},
    {"66 c7 05 10 00 00 00 01 02 ; mov word [rip + 0x10], imm16", Kind::other, 9, 0, 0x19, 3},
    {"64 48 8b 05 10 00 00 00   ; mov rax, fs:[rip + 0x10]", Kind::other, 8, 0, 0x18, 4},
    {"0f 28 05 10 00 00 00      ; movaps xmm0, [rip + 0x10]", Kind::other, 7, 0, 0x17, 3},
    {"66 0f 38 00 05 10 00 00 00 ; pshufb xmm0, [rip + 0x10]", Kind::other, 9, 0, 0x19, 5},
    {"66 0f 3a 0f 05 10 00 00 00 04 ; palignr xmm0, [rip + 0x10], 4", Kind::other, 10, 0, 0x1a, 5},
    {"c5 fc 28 05 10 00 00 00   ; vmovaps ymm0, [rip + 0x10]", Kind::other, 8, 0, 0x18, 4},
    {"c4 e2 7d 18 05 10 00 00 00 ; vbroadcastss ymm0, [rip + 0x10]", Kind::other, 9, 0, 0x19, 5},
    {"62 f1 7c 48 28 05 10 00 00 00 ; vmovaps zmm0, [rip + 0x10]", Kind::other, 10, 0, 0x1a, 6},
    {"c5 f8 77                  ; vzeroupper", Kind::other, 3},
    {"48 b8 05 05 05 05 05 05 05 05 ; movabs rax, imm64", Kind::other, 10},
    {"8b 04 25 10 00 00 00      ; mov eax, [0x10]: absolute", Kind::other, 7},
};

TEST(Insn, KindLengthAndTargetsOfEachShape) {
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.code);
    auto bytes = assemble(row.code);
    ASSERT_EQ(bytes.size(), row.length) << "of the row itself";
    bytes.resize(kMaxInsn, std::byte{0x90});  // what follows must not matter
    auto insn = decode(bytes, kAt);
    ASSERT_TRUE(insn.has_value());
    EXPECT_EQ(insn->kind, row.kind);
    EXPECT_EQ(insn->length, row.length);
    bool has_target = row.kind == Kind::jump || row.kind == Kind::branch || row.kind == Kind::loop ||
                      row.kind == Kind::call;
    EXPECT_EQ(insn->target, has_target ? std::optional(kAt + row.target) : std::nullopt);
    EXPECT_EQ(insn->rip_reference, row.reference != 0 ? std::optional(kAt + row.reference) : std::nullopt);
    EXPECT_EQ(insn->rip_displacement_offset, row.displacement_at);
  }
}

TEST(Insn, EveryTruncationIsNoInstruction) {
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.code);
    auto bytes = assemble(row.code);
    for (size_t size = 0; size < bytes.size(); ++size)
      EXPECT_FALSE(decode(std::span(bytes).first(size), kAt).has_value()) << size << " bytes";
  }
}

TEST(Insn, WhatIsInvalidOrMeansTwoThingsDoesNotDecode) {
  for (const char* code : {"06 ; push es", "0f 0a", "d6", "66 e9 00 00 00 00 ; jmp rel16 or rel32",
                           "66 0f 84 00 00 00 00", "66 75 00", "66 e8 00 00 00 00", "66 c3", "66 ff e0",
                           "66 ff 15 00 00 00 00", "66 e3 00", "f0 e9 00 00 00 00 ; lock jmp"}) {
    auto bytes = assemble(code);
    bytes.resize(kMaxInsn, std::byte{0x90});
    EXPECT_FALSE(decode(bytes, kAt).has_value()) << code;
  }
}

TEST(Insn, MoreThanFifteenBytesAreNoInstruction) {
  std::vector<std::byte> bytes(20, std::byte{0x2e});
  bytes[15] = std::byte{0x90};
  EXPECT_FALSE(decode(bytes, kAt).has_value());
  bytes[14] = std::byte{0x90};
  EXPECT_EQ(decode(bytes, kAt).value().length, 15);
}

TEST(Insn, DisassemblyShowsBytesAndMeaning) {
  EXPECT_EQ(disassemble(assemble("48 8b 05 10 00 00 00 cc"), kAt),
            "48 8b 05 10 00 00 00  mov rax, qword ptr [rip + 0x10]");
  EXPECT_EQ(disassemble(assemble("c3"), kAt), "c3  ret");
  EXPECT_EQ(disassemble(assemble("eb 10"), kAt), "eb 10  jmp 0x401012");
  EXPECT_EQ(disassemble(assemble("06 07"), kAt), "06 07  (bad)");
  EXPECT_EQ(disassemble({}, kAt), " (bad)");
}

}  // namespace
}  // namespace rtrace::arch::insn_test
