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
  function rtrace_entry_looping
    mov %edi, %eax
    dec %edi
    test %edi, %edi
    jne rtrace_entry_looping
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

namespace rtrace::plan {
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
}  // namespace rtrace::plan
