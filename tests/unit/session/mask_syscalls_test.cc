#include "../../../src/session/mask_syscalls.h"

#include <gmock/gmock.h>

#include <string_view>

namespace rtrace::session::mask_syscalls_test {
namespace {

using namespace std::string_view_literals;

constexpr VirtAddr kAt{0x10000};

std::vector<MaskSyscall> found_in(std::string_view code) {
  return find_mask_syscalls(std::as_bytes(std::span(code)), kAt);
}

MATCHER_P2(At, address, blocks, "") {
  return arg.address == address && arg.blocks == blocks;
}

TEST(MaskSystemCalls, ByNumberAndSizeOfTheSet) {
  // mov $8,%r10d; xor %edi,%edi; mov $14,%eax; lea 0(%rip),%rsi; syscall; ret
  EXPECT_THAT(found_in("\x41\xba\x08\0\0\0\x31\xff\xb8\x0e\0\0\0\x48\x8d\x35\0\0\0\0\x0f\x05\xc3"sv),
              testing::ElementsAre(At(kAt + 20, true)));
  // mov $2,%edi; mov $14,%eax; mov $8,%r10d; syscall
  EXPECT_THAT(found_in("\xbf\x02\0\0\0\xb8\x0e\0\0\0\x41\xba\x08\0\0\0\x0f\x05"sv),
              testing::ElementsAre(At(kAt + 16, false)));
}

TEST(MaskSystemCalls, NothingElse) {
  // a branch between
  EXPECT_TRUE(found_in("\x41\xba\x08\0\0\0\xb8\x0e\0\0\0\x74\x00\x0f\x05\xc3"sv).empty());
  // no size, and another one
  EXPECT_TRUE(found_in("\xb8\x0e\0\0\0\x0f\x05\xc3"sv).empty());
  EXPECT_TRUE(found_in("\x41\xba\x10\0\0\0\xb8\x0e\0\0\0\x0f\x05\xc3"sv).empty());
  // another number, and code that ends
  EXPECT_TRUE(found_in("\x41\xba\x08\0\0\0\xb8\x0d\0\0\0\x0f\x05\xc3"sv).empty());
  EXPECT_TRUE(found_in("\x41\xba\x08\0\0\0\xb8\x0e\0\0\0"sv).empty());
  EXPECT_TRUE(found_in("\x41\xba\x08\0\0\0\xb8\x0e\0\0\0\x0f"sv).empty());
  EXPECT_TRUE(found_in(""sv).empty());
}

}  // namespace
}  // namespace rtrace::session::mask_syscalls_test
