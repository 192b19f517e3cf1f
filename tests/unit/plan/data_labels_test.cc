// Loops whose head is their function's second instruction, and which only data lead back to: what compilers
// make of an interpreter each of whose operations jumps to the next one's. This program serves as the object.
#include <gmock/gmock.h>

#include "rtrace/plan/entry_patch.h"

asm(R"(
  .macro operations name
  .fill 160, 1, 0xcc  # far from padding that a short jump could go through
  .p2align 4
  .globl \name
  .type \name, @function
\name:
    mov %rdi, %rsi
\name\()_next:
    movzbl (%rsi), %eax
    inc %rsi
  .endm
  .macro operations_end name
\name\()_end:
    ret
  .size \name, . - \name
  .fill 160, 1, 0xcc
  .endm
  .pushsection .text
  operations rtrace_by_pointers
    lea rtrace_pointers(%rip), %rdx
    jmp *(%rdx,%rax,8)
  operations_end rtrace_by_pointers
  operations rtrace_by_distances
    lea rtrace_distances(%rip), %rdx
    movslq (%rdx,%rax,4), %rax
    add %rdx, %rax
    notrack jmp *%rax
  operations_end rtrace_by_distances
  operations rtrace_by_distances_of_a_label
    lea rtrace_distances_of_a_label(%rip), %rdx
    lea rtrace_by_distances_of_a_label_end(%rip), %r8
    movslq (%rdx,%rax,4), %rax
    add %r8, %rax
    jmp *%rax
  operations_end rtrace_by_distances_of_a_label
  operations rtrace_by_distances_behind_it
    lea rtrace_distances_behind_it(%rip), %rdx
    movslq (%rdx,%rax,4), %rax
    add %rdx, %rax
    jmp *%rax
  operations_end rtrace_by_distances_behind_it
  operations rtrace_pointed_to
    cmp $1, %eax
    je rtrace_pointed_to_end
    xor %eax, %eax
  operations_end rtrace_pointed_to
  .popsection
  .pushsection .data.rel.ro, "aw"
  .balign 8
rtrace_pointers:
  .quad rtrace_by_pointers_end, rtrace_by_pointers_next, rtrace_pointed_to
  .popsection
  .pushsection .rodata
  .balign 4
rtrace_distances:
  .long rtrace_by_distances_end - rtrace_distances, rtrace_by_distances_next - rtrace_distances
rtrace_distances_of_a_label:
  .long 0, rtrace_by_distances_of_a_label_next - rtrace_by_distances_of_a_label_end
rtrace_distances_behind_it:
  .long rtrace_by_distances_behind_it_end - rtrace_distances_behind_it, 0x40000000
  .long rtrace_by_distances_behind_it_next - rtrace_distances_behind_it
  .popsection
)");

namespace rtrace::plan::data_labels_test {
namespace {

using testing::MatchesRegex;

std::string answer_for(std::string_view name) {
  const auto file = elf::ElfFile::open("/proc/self/exe");
  const auto functions = file->find_function(name);
  if (functions.size() != 1) return "not found";
  const auto answer = examine_entries(*file, functions).at(0);
  const auto* refused = std::get_if<arch::Refused>(&answer);
  return refused != nullptr ? refused->reason : "serves";
}

const char kInData[] = "data lead to inside the jump: the word at 0x[0-9a-f]+ to 0x[0-9a-f]+";

TEST(DataLabels, PointersOfATable) {
  EXPECT_THAT(answer_for("rtrace_by_pointers"), MatchesRegex(kInData));
}

TEST(DataLabels, DistancesFromTheTable) {
  EXPECT_THAT(answer_for("rtrace_by_distances"), MatchesRegex(kInData));
}

TEST(DataLabels, DistancesFromALabel) {
  EXPECT_THAT(answer_for("rtrace_by_distances_of_a_label"), MatchesRegex(kInData));
}

TEST(DataLabels, ATableEndsWhereAnElementLeadsToNoCode) {
  EXPECT_EQ(answer_for("rtrace_by_distances_behind_it"), "serves");
}

TEST(DataLabels, APointerToTheFunctionIsNone) {
  EXPECT_EQ(answer_for("rtrace_pointed_to"), "serves");
}

}  // namespace
}  // namespace rtrace::plan::data_labels_test
