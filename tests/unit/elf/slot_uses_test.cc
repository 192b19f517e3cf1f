#include <gmock/gmock.h>

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "../../../src/elf/slot_uses.h"
#include "elf/fixtures.h"

namespace rtrace::elf::slot_uses_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr ElfAddr kCode{0x401000}, kSlot{0x404018}, kOther{0x404020};
constexpr ElfRange kGot{{0x404000}, {0x404028}};
const std::vector<ElfAddr> kSlots = {kSlot, kOther};
const GotView kAnywhere{kSlots, kGot, false}, kFixed{kSlots, kGot, true};

CodeBytes bytes_of(const std::vector<uint8_t>& code) {
  return {kCode, std::as_bytes(std::span(code))};
}

template <typename T>
void append(std::vector<uint8_t>& code, T value) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
  code.insert(code.end(), bytes, bytes + sizeof value);
}

// `before`, a displacement to `to`, and as many more bytes as the instruction has: at the end, and with nops
// around it.
std::vector<ElfAddr> uses(std::initializer_list<uint8_t> before, size_t behind = 0, ElfAddr to = kSlot) {
  std::vector<uint8_t> code(8, 0x90);
  code.insert(code.end(), before);
  append(code, static_cast<int32_t>(to - (kCode + code.size() + sizeof(int32_t) + behind)));
  code.insert(code.end(), behind, 0x5a);
  const auto at_the_end = uses_in_code(bytes_of(code), kAnywhere);
  code.insert(code.end(), 8, 0x90);
  EXPECT_EQ(uses_in_code(bytes_of(code), kAnywhere), at_the_end);
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
  EXPECT_THAT(uses({0xff, 0x35}), ElementsAre(kSlot)) << "push slot(%rip)";
  EXPECT_THAT(uses({0x66, 0x0f, 0xd6, 0x05}), ElementsAre(kSlot)) << "movq %xmm0, slot(%rip)";
}

TEST(SlotUses, ImmediatesBehindTheDisplacementMoveWhereItLeads) {
  EXPECT_THAT(uses({0x48, 0x83, 0x3d}, 1), ElementsAre(kSlot)) << "cmpq $imm8, slot(%rip)";
  EXPECT_THAT(uses({0x66, 0x81, 0x3d}, 2), ElementsAre(kSlot)) << "cmpw $imm16, slot(%rip)";
  EXPECT_THAT(uses({0x48, 0x81, 0x3d}, 4), ElementsAre(kSlot)) << "cmpq $imm32, slot(%rip)";
}

TEST(SlotUses, APartOfASlotIsOne) {
  EXPECT_THAT(uses({0x8b, 0x05}, 0, kSlot + 4), testing::Contains(kSlot)) << "mov slot+4(%rip), %eax";
}

TEST(SlotUses, AreAllWhereCodeMakesAnAddressInTheGot) {
  EXPECT_THAT(uses({0x48, 0x8d, 0x3d}), ElementsAre(kSlot, kOther)) << "lea slot(%rip), %rdi";
  EXPECT_THAT(uses({0x48, 0x8d, 0x1d}, 0, kGot.begin), ElementsAre(kSlot, kOther)) << "its beginning";
  EXPECT_THAT(uses({0x48, 0x8d, 0x1d}, 0, kGot.end), IsEmpty()) << "data behind it";
  std::vector<uint8_t> large = {0x48, 0x8d, 0x1d, 0xf9, 0xff, 0xff, 0xff, 0x49, 0xbb};
  append(large, kGot.begin - kCode);  // movabs $_GLOBAL_OFFSET_TABLE_-.L, %r11
  EXPECT_THAT(uses_in_code(bytes_of(large), kAnywhere), ElementsAre(kSlot, kOther));
  large[7] = 0x90;
  EXPECT_THAT(uses_in_code(bytes_of(large), kAnywhere), IsEmpty());
}

TEST(SlotUses, AnAddressCountsWhereTheProgramLiesAtIt) {
  const std::vector<uint8_t> code = {0x48, 0x8b, 0x04, 0x25, 0x18, 0x40, 0x40, 0x00, 0xc3};  // mov slot, %rax
  EXPECT_THAT(uses_in_code(bytes_of(code), kFixed), ElementsAre(kSlot));
  EXPECT_THAT(uses_in_code(bytes_of(code), kAnywhere), IsEmpty());
  EXPECT_THAT(uses_in_code(bytes_of(code), GotView{{}, kGot, true}), IsEmpty());
}

TEST(SlotUses, DistancesInDataCount) {
  std::vector<uint8_t> table(8, 0);
  append(table, static_cast<int32_t>(kSlot - (kCode + table.size())));
  append(table, static_cast<int32_t>(kOther - (kCode + table.size()) + 8));  // from the table's second word
  EXPECT_THAT(uses_in_data(bytes_of(table), kAnywhere), ElementsAre(kSlot, kOther));
  table.insert(table.begin(), 2, 0);
  EXPECT_THAT(uses_in_data(bytes_of(table), kAnywhere), IsEmpty());
}

TEST(SlotUses, OfAProgramAreThoseOfTheFunctionsWhoseAddressItTakes) {
  const auto file = open_fixture("no_plt");
  std::vector<ElfAddr> slots;
  for (const CallSlot& slot : file->call_slots()) slots.push_back(slot.slot);
  const auto used = file->slots_used_otherwise(slots);
  const auto is_used = [&](const char* name) {
    return std::ranges::find(used, slot_of(*file, name)->slot) != used.end();
  };
  EXPECT_TRUE(is_used("puts"));
  for (const char* name : {"getenv", "strtol"}) EXPECT_FALSE(is_used(name)) << name;
}

}  // namespace
}  // namespace rtrace::elf::slot_uses_test
