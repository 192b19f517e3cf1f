#include "rtrace/mech/patch.h"

#include <gmock/gmock.h>

namespace rtrace::mech::patch_test {
namespace {

using testing::HasSubstr;

// Seven bytes behind an endbr64 at 0x401000.
constexpr Range kCovered{{0x401004}, {0x40100b}};
constexpr Range kForbidden[] = {inside(kCovered)};

std::optional<Busy> with_pc(uint64_t pc) {
  const StandingThread threads[] = {{.tid = 7, .pc = {0x5000}, .stack = {}},
                                    {.tid = 8, .pc = {pc}, .stack = {}}};
  return patch_conflicts(kForbidden, threads);
}

std::optional<Busy> with_word(uint64_t word) {
  const uint64_t stack[] = {0, 0x7fff'0000, word, ~uint64_t{0}};
  const StandingThread threads[] = {{.tid = 7, .pc = {0x5000}, .stack = stack}};
  return patch_conflicts(kForbidden, threads);
}

TEST(PatchConflicts, NobodyIsInTheWayWhereThereIsNobody) {
  EXPECT_FALSE(patch_conflicts(kForbidden, {}));
}

TEST(PatchConflicts, AThreadStrictlyInsideIsInTheWay) {
  for (uint64_t pc = 0x401005; pc < 0x40100b; ++pc) EXPECT_TRUE(with_pc(pc)) << std::hex << pc;
  EXPECT_THAT(with_pc(0x401007)->reason, HasSubstr("thread 8 stands at 0x401007"));
}

TEST(PatchConflicts, AThreadAtTheFunctionsEndbr64AtTheJumpOrBehindTheCoveredBytesIsNot) {
  for (uint64_t pc : {0x401000u, 0x401004u, 0x40100bu}) EXPECT_FALSE(with_pc(pc)) << std::hex << pc;
}

TEST(PatchConflicts, AStackWordStrictlyInsideIsInTheWay) {
  for (uint64_t word = 0x401005; word < 0x40100b; ++word) EXPECT_TRUE(with_word(word)) << std::hex << word;
  EXPECT_THAT(with_word(0x401007)->reason, HasSubstr("the stack of thread 7 holds 0x401007"));
}

TEST(PatchConflicts, AReturnAddressAtTheEndOfTheCoveredBytesAndAPointerToTheFunctionAreNot) {
  for (uint64_t word : {0x401000u, 0x401004u, 0x40100bu}) EXPECT_FALSE(with_word(word)) << std::hex << word;
}

TEST(PatchConflicts, AThreadInABreakpointsCopyThatLeadsInsideIsInTheWay) {
  const Range forbidden[] = {inside(kCovered), {{0x7000}, {0x700a}}};
  const StandingThread first[] = {{.tid = 7, .pc = {0x7000}, .stack = {}}};
  const StandingThread behind[] = {{.tid = 7, .pc = {0x700a}, .stack = {}}};
  EXPECT_TRUE(patch_conflicts(forbidden, first));
  EXPECT_FALSE(patch_conflicts(forbidden, behind));
}

}  // namespace
}  // namespace rtrace::mech::patch_test
