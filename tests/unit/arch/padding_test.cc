// What tells code from the padding between functions.
#include <gmock/gmock.h>

#include "arch/code_text.h"
#include "rtrace/arch/prologue.h"

namespace rtrace::arch::padding_test {
namespace {

constexpr VirtAddr kFrom{0x7f0000001000};

TEST(EndsForGood, TellsWhetherControlComesBehindIt) {
  const auto ends = [](std::string_view code) { return ends_for_good(assemble(code), kFrom); };
  EXPECT_TRUE(ends("48 89 f8 c3"));
  EXPECT_TRUE(ends("48 01 d0 eb 3b"));
  EXPECT_TRUE(ends("0f 0b"));
  EXPECT_FALSE(ends("48 39 d1 0f 82 57 95 fa ff ; jb: or falls into what is next"));
  EXPECT_FALSE(ends("e8 00 00 00 00 ; a call: who knows whether it returns"));
  EXPECT_FALSE(ends("c3 0f ; ends in the middle"));
  EXPECT_FALSE(ends("c3 06 ; nothing known"));
  EXPECT_FALSE(ends(""));
}

TEST(IsPadding, NopsAndInt3sOfAnyLength) {
  const auto padding = [](std::string_view code) { return is_padding(assemble(code), kFrom, 5); };
  EXPECT_TRUE(padding("0f 1f 84 00 00 00 00 00"));
  EXPECT_TRUE(padding("cc cc cc cc cc"));
  EXPECT_TRUE(padding("66 90 0f 1f 00"));
  EXPECT_FALSE(padding("90 90 90 90 ; too few"));
  EXPECT_FALSE(padding("90 90 90 90 c3"));
  EXPECT_FALSE(padding("f3 0f 1e fa 90 ; endbr64: somebody comes there"));
}

}  // namespace
}  // namespace rtrace::arch::padding_test
