#include "../../../src/elf/slot_scan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rtrace::elf::slot_scan_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr ElfAddr kCode{0x1000}, kSlot{0x3000};

struct SlotScan : testing::Test {
  SlotScan& put(std::initializer_list<int> bytes) {
    for (int byte : bytes) code.push_back(std::byte(byte));
    return *this;
  }
  // The displacement from behind itself to the slot.
  SlotScan& to_slot() {
    const auto distance = static_cast<uint32_t>(kSlot.value - (kCode.value + code.size() + 4));
    for (int shift = 0; shift < 32; shift += 8) code.push_back(std::byte(distance >> shift & 0xff));
    return *this;
  }
  SlotScan& pad(size_t bytes) {
    code.resize(code.size() + bytes, std::byte{0x90});
    return *this;
  }
  std::vector<SlotReference::Kind> kinds() const {
    std::vector<SlotReference::Kind> found;
    for (const auto& reference : find_slot_references({kCode, code}, std::span(&kSlot, 1)))
      found.push_back(reference.kind);
    return found;
  }
  std::vector<std::byte> code;
};

TEST_F(SlotScan, FindsCallsAndJumps) {
  put({0xff, 0x15}).to_slot().put({0x41, 0xff, 0x25}).to_slot().put({0xff, 0x35}).to_slot();
  EXPECT_THAT(kinds(), ElementsAre(SlotReference::Kind::call, SlotReference::Kind::jump));
}

TEST_F(SlotScan, FindsALoadWithACallByItsRegister) {
  put({0x4c, 0x8b, 0x25}).to_slot().pad(30).put({0x41, 0xff, 0xd4});  // %r12
  EXPECT_THAT(kinds(), ElementsAre(SlotReference::Kind::load));
  code.clear();
  put({0x48, 0x8b, 0x05}).to_slot().pad(3).put({0xff, 0xe0}).pad(16);  // jmp *%rax
  EXPECT_THAT(kinds(), ElementsAre(SlotReference::Kind::load));
}

TEST_F(SlotScan, TakesNoLoadForACall) {
  put({0x48, 0x8b, 0x3d}).to_slot().pad(30);  // %rdi: an argument
  EXPECT_THAT(kinds(), ElementsAre(SlotReference::Kind::address));
  put({0xff, 0xd0, 0x41, 0xff, 0xd7});  // by other registers, %rax and %r15
  EXPECT_THAT(kinds(), ElementsAre(SlotReference::Kind::address));
  code.clear();
  put({0x8b, 0x05}).to_slot().put({0xff, 0xd0});  // 32 bits of it
  EXPECT_THAT(kinds(), IsEmpty());
  code.clear();
  put({0x48, 0x8b, 0x1d}).to_slot().pad(5000).put({0xff, 0xd3});  // %rbx
  EXPECT_THAT(kinds(), ElementsAre(SlotReference::Kind::address)) << "far away";
  code.clear();
  put({0x48, 0x8b, 0x05}).to_slot().put({0xc3}).pad(15).put({0xff, 0xd0});
  EXPECT_THAT(kinds(), ElementsAre(SlotReference::Kind::address)) << "in another function";
  code.clear();
  put({0x48, 0x8b, 0x05}).to_slot().put({0x48, 0x8b, 0x43, 0x08, 0xff, 0xd0});  // mov 8(%rbx), %rax
  EXPECT_THAT(kinds(), ElementsAre(SlotReference::Kind::address)) << "overwritten";
}

TEST_F(SlotScan, AStubBeginsWithItsJumpOrWithTheLoadOfARetpoline) {
  const auto stub = [&]() -> std::optional<uint64_t> {
    const auto references = find_slot_references({kCode, code}, std::span(&kSlot, 1));
    const auto begin = references.empty() ? std::nullopt : stub_of({kCode, code}, references[0]);
    return begin ? std::optional(*begin - kCode) : std::nullopt;
  };
  put({0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x25}).to_slot();
  EXPECT_EQ(stub(), 0u);
  code.clear();
  pad(8).put({0x4c, 0x8b, 0x1d}).to_slot().put({0xe8, 0, 0, 0, 0});  // mov slot, %r11
  EXPECT_EQ(stub(), 8u);
  code.clear();
  pad(8).put({0x48, 0x8b, 0x1d}).to_slot().pad(16);  // %rbx
  EXPECT_EQ(stub(), std::nullopt);
}

}  // namespace
}  // namespace rtrace::elf::slot_scan_test
