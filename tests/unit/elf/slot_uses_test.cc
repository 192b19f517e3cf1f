#include <gmock/gmock.h>

#include <cstring>
#include <initializer_list>
#include <vector>

#include "../../../src/elf/slot_scan.h"
#include "elf/fixtures.h"

namespace rtrace::elf {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr ElfAddr kCode{0x401000}, kSlot{0x404018}, kOther{0x404020};

// `before`, a displacement to kSlot, and as many more bytes as the instruction has: at the end, and with
// nops around it.
std::vector<ElfAddr> uses(std::initializer_list<uint8_t> before, size_t behind = 0,
                          Placed placed = Placed::anywhere) {
  std::vector<uint8_t> code(8, 0x90);
  code.insert(code.end(), before);
  const ElfAddr next = kCode + code.size() + sizeof(int32_t) + behind;
  const auto displacement = static_cast<int32_t>(kSlot - next);
  const auto* bytes = reinterpret_cast<const uint8_t*>(&displacement);
  code.insert(code.end(), bytes, bytes + sizeof displacement);
  code.insert(code.end(), behind, 0x5a);
  const std::vector<ElfAddr> slots = {kSlot, kOther};
  const auto at_the_end = find_other_uses({kCode, std::as_bytes(std::span(code))}, slots, placed);
  code.insert(code.end(), 8, 0x90);
  EXPECT_EQ(find_other_uses({kCode, std::as_bytes(std::span(code))}, slots, placed), at_the_end);
  return at_the_end;
}

TEST(SlotUses, ACallAndAJumpThroughItAreNone) {
  EXPECT_THAT(uses({0xff, 0x15}), IsEmpty());
  EXPECT_THAT(uses({0xff, 0x25}), IsEmpty());
  EXPECT_THAT(uses({0x3e, 0xff, 0x25}), IsEmpty()) << "notrack";
  EXPECT_THAT(uses({0xf2, 0xff, 0x15}), IsEmpty()) << "bnd";
}

TEST(SlotUses, EveryOtherInstructionThatLeadsThereIsOne) {
  EXPECT_THAT(uses({0x48, 0x8b, 0x05}), ElementsAre(kSlot)) << "mov slot(%rip), %rax";
  EXPECT_THAT(uses({0x4c, 0x3b, 0x35}), ElementsAre(kSlot)) << "cmp slot(%rip), %r14";
  EXPECT_THAT(uses({0x48, 0x8d, 0x3d}), ElementsAre(kSlot)) << "lea slot(%rip), %rdi";
  EXPECT_THAT(uses({0xff, 0x35}), ElementsAre(kSlot)) << "push slot(%rip)";
  EXPECT_THAT(uses({0x66, 0x0f, 0xd6, 0x05}), ElementsAre(kSlot)) << "movq %xmm0, slot(%rip)";
}

TEST(SlotUses, ImmediatesBehindTheDisplacementMoveWhereItLeads) {
  EXPECT_THAT(uses({0x48, 0x83, 0x3d}, 1), ElementsAre(kSlot)) << "cmpq $imm8, slot(%rip)";
  EXPECT_THAT(uses({0x66, 0x81, 0x3d}, 2), ElementsAre(kSlot)) << "cmpw $imm16, slot(%rip)";
  EXPECT_THAT(uses({0x48, 0x81, 0x3d}, 4), ElementsAre(kSlot)) << "cmpq $imm32, slot(%rip)";
}

TEST(SlotUses, AnAddressCountsWhereTheProgramLiesAtIt) {
  std::vector<uint8_t> code = {0x48, 0x8b, 0x04, 0x25, 0x18, 0x40, 0x40, 0x00, 0xc3};  // mov slot, %rax
  const std::vector<ElfAddr> slots = {kSlot};
  const CodeBytes bytes{kCode, std::as_bytes(std::span(code))};
  EXPECT_THAT(find_other_uses(bytes, slots, Placed::fixed), ElementsAre(kSlot));
  EXPECT_THAT(find_other_uses(bytes, slots, Placed::anywhere), IsEmpty());
  EXPECT_THAT(find_other_uses(bytes, {}, Placed::fixed), IsEmpty());
}

TEST(SlotUses, OfAProgramAreThoseOfTheFunctionsWhoseAddressItTakes) {
  const auto file = open_fixture("no_plt");
  std::vector<ElfAddr> slots;
  for (const CallSlot& slot : file->call_slots()) slots.push_back(slot.slot);
  const auto used = slots_used_otherwise(*file, slots);
  const auto is_used = [&](const char* name) {
    return std::ranges::find(used, slot_of(*file, name)->slot) != used.end();
  };
  EXPECT_TRUE(is_used("puts"));
  for (const char* name : {"getenv", "strtol"}) EXPECT_FALSE(is_used(name)) << name;
}

}  // namespace
}  // namespace rtrace::elf
