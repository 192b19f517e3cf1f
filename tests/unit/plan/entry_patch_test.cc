// The functions of this program serve as the object.
#include "rtrace/plan/entry_patch.h"

#include <gmock/gmock.h>

#include <string_view>

asm(R"(
  .macro function name
  .p2align 4
  .globl \name
  .type \name, @function
\name:
  .endm
  .pushsection .text
  function rtrace_entry_plain
    push %rbp
    mov %rsp, %rbp
    xor %eax, %eax
    pop %rbp
    ret
    .size rtrace_entry_plain, . - rtrace_entry_plain
  function rtrace_entry_endbr
    endbr64
    sub $0x88, %rsp
    add $0x88, %rsp
    ret
    .size rtrace_entry_endbr, . - rtrace_entry_endbr
  function rtrace_entry_without_size
    ret
  function rtrace_entry_short
    ret
    .size rtrace_entry_short, . - rtrace_entry_short
    .type rtrace_entry_neighbour, @function
rtrace_entry_neighbour:
    mov $1, %eax
    ret
    .size rtrace_entry_neighbour, . - rtrace_entry_neighbour
  .fill 160, 1, 0xcc
  function rtrace_entry_entered
    mov %rdi, %rax
1:
    add $1, %rax
    ret
    .size rtrace_entry_entered, . - rtrace_entry_entered
  function rtrace_entry_enters
    mov %rsi, %rax
    jmp 1b
    .size rtrace_entry_enters, . - rtrace_entry_enters
  # Where code of another function leads to the fourth byte: with padding in reach behind a function that ends
  # there, that goes on into the next, or whose padding is jumped to; and above none.
  .fill 160, 1, 0xcc
  function rtrace_entry_ending
    .cfi_startproc
    mov %rsi, %rax
    jmp 2f
    .cfi_endproc
    .size rtrace_entry_ending, . - rtrace_entry_ending
    .p2align 4
    .globl rtrace_entry_hopping
    .type rtrace_entry_hopping, @function
rtrace_entry_hopping:
    .cfi_startproc
    mov %rdi, %rax
2:
    add $1, %rax
    ret
    .cfi_endproc
    .size rtrace_entry_hopping, . - rtrace_entry_hopping
    .fill 160, 1, 0xcc
  function rtrace_entry_fallen
    .cfi_startproc
    mov %rsi, %rax
    test %rsi, %rsi
    jne 3f
    .cfi_endproc
    .size rtrace_entry_fallen, . - rtrace_entry_fallen
    .p2align 4
    .globl rtrace_entry_fallen_into
    .type rtrace_entry_fallen_into, @function
rtrace_entry_fallen_into:
    .cfi_startproc
    mov %rdi, %rax
3:
    add $1, %rax
    jmp rtrace_entry_plain
    ud2
    .cfi_endproc
    .size rtrace_entry_fallen_into, . - rtrace_entry_fallen_into
    .globl rtrace_entry_close
    .type rtrace_entry_close, @function
rtrace_entry_close:
    ret
    .size rtrace_entry_close, . - rtrace_entry_close
    .fill 160, 1, 0xcc
  function rtrace_entry_jumping
    .cfi_startproc
    mov %rsi, %rax
    jmp 4f
    .cfi_endproc
    .size rtrace_entry_jumping, . - rtrace_entry_jumping
5:
    .p2align 4
    .globl rtrace_entry_jumped
    .type rtrace_entry_jumped, @function
rtrace_entry_jumped:
    .cfi_startproc
    mov %rdi, %rax
4:
    add $1, %rax
    jne 5b
    .byte 0xc3
    .cfi_endproc
    .size rtrace_entry_jumped, . - rtrace_entry_jumped
    .globl rtrace_entry_closer
    .type rtrace_entry_closer, @function
rtrace_entry_closer:
    ret
    .size rtrace_entry_closer, . - rtrace_entry_closer
    .fill 160, 1, 0xcc
  function rtrace_entry_looping
  0:
    mov %edi, %eax
    dec %edi
    test %edi, %edi
    jne 0b
    ret
    .size rtrace_entry_looping, . - rtrace_entry_looping
  function rtrace_entry_recursive
    sub $1, %edi
    js 1f
    call rtrace_entry_recursive
1:
    ret
    .size rtrace_entry_recursive, . - rtrace_entry_recursive
  .popsection
)");

namespace rtrace::plan::entry_patch_test {
namespace {

using testing::StartsWith;

class EntryPatches : public testing::Test {
 protected:
  elf::Symbol symbol(std::string_view name) const {
    auto found = file_->find_function(name);
    EXPECT_EQ(found.size(), 1u) << name;
    return found.at(0);
  }
  EntryAnswer answer(std::string_view name) const {
    const elf::Symbol functions[] = {symbol(name)};
    return examine_entries(*file_, functions).at(0);
  }
  EntryPatch patch(std::string_view name) const {
    auto given = answer(name);
    if (auto* refused = std::get_if<arch::Refused>(&given)) ADD_FAILURE() << refused->reason;
    return std::get<EntryPatch>(given);
  }
  std::string refusal(std::string_view name) const {
    auto given = answer(name);
    auto* refused = std::get_if<arch::Refused>(&given);
    return refused != nullptr ? refused->reason : "none";
  }

  std::shared_ptr<const elf::ElfFile> file_ = elf::ElfFile::open("/proc/self/exe");
};

TEST_F(EntryPatches, JumpGoesToTheFunctionsFirstByte) {
  EntryPatch found = patch("rtrace_entry_plain");
  EXPECT_EQ(found.at, symbol("rtrace_entry_plain").address);
  EXPECT_EQ(found.covered, 6);
  EXPECT_EQ(found.size, 8u);
  EXPECT_EQ(found.room, 16u);
}

TEST_F(EntryPatches, JumpGoesBehindAnEndbr64) {
  EntryPatch found = patch("rtrace_entry_endbr");
  EXPECT_EQ(found.at, symbol("rtrace_entry_endbr").address + 4);
  EXPECT_EQ(found.covered, 7);
}

TEST_F(EntryPatches, PaddingServesWhereNoSizeIsKnown) {
  EXPECT_EQ(patch("rtrace_entry_without_size").covered, 5);
}

TEST_F(EntryPatches, AnotherSymbolEndsTheRoom) {
  EXPECT_THAT(refusal("rtrace_entry_short"), StartsWith("only 1 bytes up to the next function: c3  ret"));
}

TEST_F(EntryPatches, OtherFunctionsBranchesToInsideAreFound) {
  EXPECT_THAT(refusal("rtrace_entry_entered"), StartsWith("other code leads to inside the jump: eb"));
  EXPECT_EQ(patch("rtrace_entry_enters").covered, 5);
}

TEST_F(EntryPatches, WhereOnlyAShortJumpFitsItLeadsToPaddingBehindAFunctionThatEnds) {
  const EntryPatch found = patch("rtrace_entry_hopping");
  const elf::Symbol before = symbol("rtrace_entry_ending");
  EXPECT_EQ(found.at, symbol("rtrace_entry_hopping").address);
  EXPECT_EQ(found.covered, 3);
  EXPECT_EQ(found.needed(), 3u);
  EXPECT_EQ(found.hop, before.address + before.size);
  EXPECT_FALSE(patch("rtrace_entry_plain").hop);
}

TEST_F(EntryPatches, PaddingThatAFunctionFallsIntoIsCode) {
  EXPECT_THAT(refusal("rtrace_entry_fallen_into"), StartsWith("other code leads to inside the jump: 75"));
}

TEST_F(EntryPatches, PaddingThatCodeJumpsToIsCode) {
  EXPECT_THAT(refusal("rtrace_entry_jumped"), StartsWith("other code leads to inside the jump: eb"));
}

TEST_F(EntryPatches, ALoopToTheBeginningIsNoCall) {
  EXPECT_THAT(refusal("rtrace_entry_looping"), StartsWith("a loop to its beginning: 75"));
}

TEST_F(EntryPatches, ARecursionIs) {
  EXPECT_EQ(patch("rtrace_entry_recursive").covered, 5);
}

TEST_F(EntryPatches, AnswersAreInTheOrderOfTheQuestions) {
  const elf::Symbol functions[] = {symbol("rtrace_entry_looping"), symbol("rtrace_entry_endbr"),
                                   symbol("rtrace_entry_looping"), symbol("rtrace_entry_plain")};
  auto answers = examine_entries(*file_, functions);
  ASSERT_EQ(answers.size(), 4u);
  EXPECT_TRUE(std::holds_alternative<arch::Refused>(answers[0]));
  EXPECT_EQ(std::get<EntryPatch>(answers[1]).function, functions[1].address);
  EXPECT_TRUE(std::holds_alternative<arch::Refused>(answers[2]));
  EXPECT_EQ(std::get<EntryPatch>(answers[3]).function, functions[3].address);
}

TEST_F(EntryPatches, NoQuestionsNoAnswers) {
  EXPECT_TRUE(examine_entries(*file_, {}).empty());
}

}  // namespace
}  // namespace rtrace::plan::entry_patch_test
