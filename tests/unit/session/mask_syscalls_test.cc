#include "../../../src/session/mask_syscalls.h"

#include <gmock/gmock.h>

#include <string_view>

namespace rtrace::session {
namespace {

using namespace std::string_view_literals;

constexpr VirtAddr kAt{0x10000};

std::vector<VirtAddr> found_in(std::string_view code) {
  return find_mask_syscalls(std::as_bytes(std::span(code)), kAt);
}

TEST(MaskSystemCalls, ASystemCallThatBlocks) {
  // xor %edi,%edi; mov $14,%eax; lea 0(%rip),%rsi; syscall; ret
  EXPECT_THAT(found_in("\x31\xff\xb8\x0e\0\0\0\x48\x8d\x35\0\0\0\0\x0f\x05\xc3"sv),
              testing::ElementsAre(kAt + 14));
}

TEST(MaskSystemCalls, NotOneThatSetsTheMaskOrIsNotReachedStraightOn) {
  // mov $2,%edi behind an xor
  EXPECT_TRUE(found_in("\x31\xff\xbf\x02\0\0\0\xb8\x0e\0\0\0\x0f\x05\xc3"sv).empty());
  // a branch between
  EXPECT_TRUE(found_in("\x31\xff\xb8\x0e\0\0\0\x74\x00\x0f\x05\xc3"sv).empty());
  // another number, and code that ends
  EXPECT_TRUE(found_in("\x31\xff\xb8\x0d\0\0\0\x0f\x05\xc3"sv).empty());
  EXPECT_TRUE(found_in("\x31\xff\xb8\x0e\0\0\0"sv).empty());
  EXPECT_TRUE(found_in("\x31\xff\xb8\x0e\0\0\0\x0f"sv).empty());
  EXPECT_TRUE(found_in(""sv).empty());
}

}  // namespace
}  // namespace rtrace::session
