#include "rtrace/arch/branches.h"

#include <gmock/gmock.h>

#include "arch/code_text.h"

namespace rtrace::arch::branches_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Kind = Reference::Kind;

constexpr VirtAddr kText{0x401000};
constexpr VirtAddr kTarget{0x401040};
const Range kTargets[] = {{kTarget, kTarget + 1}};

// The code stands at kText, and what leads to kTarget is found there.
std::vector<Reference> found_in(const char* code) {
  return find_references(assemble(code), kText, kTargets);
}

TEST(References, EveryDirectTransferAndAddressIsFound) {
  struct Row {
    const char* code;
    Reference expected;
  };
  const Row rows[] = {
      {"eb 3e ; jmp rel8", {kText, kTarget, Kind::jump}},
      {"70 3e ; jo rel8", {kText, kTarget, Kind::jump}},
      {"7f 3e ; jg rel8", {kText, kTarget, Kind::jump}},
      {"e0 3e ; loopne", {kText, kTarget, Kind::jump}},
      {"e3 3e ; jrcxz", {kText, kTarget, Kind::jump}},
      {"67 e3 3d ; jecxz: the place is its opcode", {kText + 1, kTarget, Kind::jump}},
      {"e9 3b 00 00 00 ; jmp rel32", {kText, kTarget, Kind::jump}},
      {"0f 80 3a 00 00 00 ; jo rel32", {kText, kTarget, Kind::jump}},
      {"0f 8f 3a 00 00 00 ; jg rel32", {kText, kTarget, Kind::jump}},
      {"c7 f8 3a 00 00 00 ; xbegin", {kText, kTarget, Kind::jump}},
      {"e8 3b 00 00 00 ; call rel32", {kText, kTarget, Kind::call}},
      {"48 8d 05 39 00 00 00 ; lea rax, [rip + 0x39]", {kText + 1, kTarget, Kind::address}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.code);
    EXPECT_THAT(found_in(row.code), ElementsAre(row.expected));
    EXPECT_TRUE(is_reference(row.expected, assemble(row.code), kText));
  }
}

TEST(References, OtherInstructionsAndOtherTargetsAreNot) {
  for (const char* code :
       {"eb 3d", "eb 3f", "e9 3a 00 00 00", "e8 3b 00 00 01", "48 8b 05 39 00 00 00 ; mov",
        "48 8d 43 3e ; lea rax, [rbx + 0x3e]", "0f 90 3e 00 00 00 ; seto", "eb", "e9 3b 00 00", "0f", ""})
    EXPECT_THAT(found_in(code), IsEmpty()) << code;
}

TEST(References, BackwardsToo) {
  std::vector<std::byte> code(0x80, std::byte{0x90});
  code[0x50] = std::byte{0xeb};
  code[0x51] = std::byte{0xee};
  EXPECT_THAT(find_references(code, kText, kTargets),
              ElementsAre(Reference{kText + 0x50, kTarget, Kind::jump}));
}

TEST(References, OfManyTargetsTheRightOnes) {
  const Range targets[] = {{{0x401010}, {0x401012}}, {{0x401020}, {0x401024}}, {{0x401024}, {0x401028}}};
  auto code = assemble("eb 0e eb 0e eb 0e eb 1a eb 1e");  // to 10, 12, 14, 22, 28
  EXPECT_THAT(
      find_references(code, kText, targets),
      ElementsAre(Reference{kText, {0x401010}, Kind::jump}, Reference{kText + 6, {0x401022}, Kind::jump}));
  EXPECT_THAT(find_references(code, kText, {}), IsEmpty());
}

TEST(References, BytesInsideAnotherInstructionAreNone) {
  auto code = assemble(
      "b8 eb 3d 00 00 ; mov eax, 0x3deb\n"
      "90 ; nop");
  auto found = find_references(code, kText, kTargets);
  ASSERT_THAT(found, ElementsAre(Reference{kText + 1, kTarget, Kind::jump}));
  EXPECT_FALSE(is_reference(found[0], code, kText));
}

TEST(References, BehindBytesThatDoNotDecodeTheyMayBe) {
  auto code = assemble("06 eb 3d");
  EXPECT_TRUE(is_reference({kText + 1, kTarget, Kind::jump}, code, kText));
}

struct Case {
  const char* code;
  VirtAddr place;  // of the offender; kText: there is none
};

// Covered are the seven bytes behind an endbr64.
TEST(BranchInto, TheFunctionsOwnCode) {
  const Case cases[] = {
      {"f3 0f 1e fa 55 48 8b 05 00 00 00 00 c3 ; nothing", kText},
      {"f3 0f 1e fa 55 53 48 83 ec 08 90 eb f9 ; jmp to the sub: inside", kText + 11},
      {"f3 0f 1e fa 55 53 48 83 ec 08 90 eb fe ; jmp to itself: behind", kText},
      {"f3 0f 1e fa 55 53 48 83 ec 08 90 eb f7 ; jmp to the push", kText + 11},
      {"f3 0f 1e fa 55 53 48 83 ec 08 90 eb f3 ; jmp to the endbr64", kText + 11},
      {"f3 0f 1e fa 55 53 48 83 ec 08 90 e8 f0 ff ff ff ; call of itself", kText},
      {"f3 0f 1e fa 55 53 48 83 ec 08 90 e8 f6 ff ff ff ; call to inside", kText + 11},
      {"f3 0f 1e fa 55 53 48 83 ec 08 90 48 8d 05 f5 ff ff ff ; lea of an address inside", kText + 12},
      {"f3 0f 1e fa 55 53 48 83 ec 08 90 48 8d 05 ee ff ff ff ; lea of its own address", kText},
      {"f3 0f 1e fa 55 75 fd 48 83 c0 08 90 ; a covered branch is the prologue's business", kText},
      {"f3 0f 1e fa 55 53 48 83 ec 08 90 b8 eb f8 ff ff c3 ; bytes of a mov", kText},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.code);
    auto branch = branch_into(assemble(each.code), {kText, {kText + 4, kText + 11}});
    EXPECT_EQ(branch ? branch->place : kText, each.place);
  }
}

TEST(BranchInto, FromOtherFunctionsOnlyWhatLeadsInside) {
  CoveredEntry entry{kText, {kText + 4, kText + 11}};
  auto from_elsewhere = [&](uint64_t offset, Kind kind) {
    return forbids({{0x500000}, kText + offset, kind}, entry, Origin::elsewhere);
  };
  for (Kind kind : {Kind::jump, Kind::call, Kind::address}) {
    EXPECT_FALSE(from_elsewhere(0, kind));
    EXPECT_FALSE(from_elsewhere(4, kind));
    EXPECT_TRUE(from_elsewhere(5, kind));
    EXPECT_TRUE(from_elsewhere(10, kind));
    EXPECT_FALSE(from_elsewhere(11, kind));
  }
}

}  // namespace
}  // namespace rtrace::arch::branches_test
