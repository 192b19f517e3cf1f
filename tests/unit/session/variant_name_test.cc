#include "../../../src/session/variant_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rtrace::session::variant_name_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(VariantName, SaysWhatTheFunctionImplements) {
  EXPECT_THAT(implemented_by("__memmove_avx_unaligned_erms"), ElementsAre("memmove", "__memmove"));
  EXPECT_THAT(implemented_by("__memset_erms"), ElementsAre("memset", "__memset"));
  EXPECT_THAT(implemented_by("__memcpy_chk_evex_unaligned"), ElementsAre("memcpy_chk", "__memcpy_chk"));
  EXPECT_THAT(implemented_by("__strncasecmp_l_sse42"), ElementsAre("strncasecmp_l", "__strncasecmp_l"));
  EXPECT_THAT(implemented_by("__strchr_sse2_no_bsf"), ElementsAre("strchr", "__strchr"));
  EXPECT_THAT(implemented_by("__sin_fma4"), ElementsAre("sin", "__sin"));
}

TEST(VariantName, IsNoneOfOtherNames) {
  for (const char* name :
       {"memcpy", "__memcpy", "memcpy_avx", "___avx", "__avx", "__avx_", "statx_generic", ""})
    EXPECT_THAT(implemented_by(name), IsEmpty()) << name;
}

}  // namespace
}  // namespace rtrace::session::variant_name_test
