#include "rtrace/session/borrowed_frames.h"

#include <gmock/gmock.h>

#include "rtrace/base/error.h"
#include "rtrace/unwind/frame_table.h"

namespace rtrace::session::borrowed_frames_test {
namespace {

using testing::HasSubstr;

TEST(BorrowedFrames, AreNotForFunctionsThatGoByTheirReturn) {
  for (const char* name : {"setjmp",
                           "_setjmp",
                           "__sigsetjmp",
                           "vfork",
                           "__vfork",
                           "getcontext",
                           "clone3",
                           "fork",
                           "__libc_fork",
                           "_Fork",
                           "dlopen",
                           "__libc_dlopen_mode",
                           "_dl_open",
                           "dlsym",
                           "_Unwind_Resume",
                           "__gxx_personality_v0",
                           "backtrace",
                           "__tls_get_addr",
                           "__fentry__",
                           "mcount",
                           "__asan_memcpy",
                           "_start",
                           "__libc_start_main",
                           "fork.localalias",
                           "main.main"})
    EXPECT_NE(why_returns_itself(name), "") << name;
  for (const char* name : {"qsort", "read", "pause", "pthread_cond_wait", "main", "start", "posix_spawn",
                           "longjmp", "__cxa_throw", "setjmper", "h_rec.localalias", "gc_start.lto_priv.0",
                           "_ZN3foo4forkEv", "_ZN4core3fmt5Write9write_fmt17h.llvm.1E"})
    EXPECT_EQ(why_returns_itself(name), "") << name;
}

std::shared_ptr<const elf::ElfFile> c_library() {
  return elf::ElfFile::open("/lib/x86_64-linux-gnu/libc.so.6");
}

TEST(BorrowedFrames, AreNotForCodeThatReadsItsCallersStack) {
  const auto file = c_library();
  unwind::FrameTable table(file);
  const auto why = [&](const char* name) {
    const auto found = file->find_exported(name);
    return found ? look_at_code(table, found->address).why_looks_up : "missing";
  };
  for (const char* name : {"printf", "strfmon", "_setjmp", "makecontext", "syscall"})
    EXPECT_THAT(why(name), HasSubstr("caller's stack")) << name;
  for (const char* name : {"qsort", "qsort_r", "read", "pause", "puts", "pthread_cond_wait", "nftw", "fopen"})
    EXPECT_EQ(why(name), "") << name;
}

// open() takes the address of what would be its fourth argument; execl() goes on from there.
TEST(BorrowedFrames, AreForCodeThatReadsItsArgumentsInMemory) {
  const auto file = c_library();
  unwind::FrameTable table(file);
  const auto why = [&](const char* name, ArgumentArea arguments) {
    const auto found = file->find_exported(name);
    return found ? look_at_code(table, found->address, arguments).why_looks_up : "not there";
  };
  EXPECT_EQ(why("open", {}), "its code reads its caller's stack");
  EXPECT_EQ(why("open", {48, false}), "its code reads its caller's stack");
  EXPECT_EQ(why("open", {48, true}), "");
  EXPECT_EQ(why("syscall", {}), "its code reads its caller's stack");
  EXPECT_EQ(why("syscall", {8, false}), "");
  EXPECT_TRUE(is_variadic_by_form("open64", "libc.so.6"));
  EXPECT_TRUE(is_variadic_by_form("__open_2", "libc.so.6"));
  EXPECT_TRUE(is_variadic_by_form("curl_easy_setopt", "libcurl.so.4"));
  EXPECT_FALSE(is_variadic_by_form("execl", "libc.so.6"));
  EXPECT_FALSE(is_variadic_by_form("open", "program"));
  EXPECT_FALSE(why_returns_itself("syscall").empty());  // the kernel may return twice
}

// So that a call of them is never open twice.
TEST(BorrowedFrames, KnowWhoseCodeCallsNothing) {
  const auto file = c_library();
  unwind::FrameTable table(file);
  const auto goes = [&](const char* name) {
    const auto found = file->find_exported(name);
    return !found || look_at_code(table, found->address).goes_elsewhere;
  };
  for (const char* name : {"abs", "labs", "ffs", "div", "htonl", "inet_netof", "hcreate_r"})
    EXPECT_EQ(goes(name), std::string_view(name) == "hcreate_r") << name;
  for (const char* name : {"qsort", "read", "pause", "puts", "getpid", "printf", "bsearch"})
    EXPECT_TRUE(goes(name)) << name;
}

TEST(BorrowedFrames, HaveReturnsForetoldInPaddingOfTheCLibrary) {
  elf::LoadedObject object;
  object.path = "/lib/x86_64-linux-gnu/libc.so.6";
  object.bias = LoadBias{0x7f0000000000};
  object.file = c_library();
  const auto found = find_foretelling({object});
  ASSERT_TRUE(found);
  const auto nops = object.file->bytes_at(object.in_file(found->call()), found->padding.size());
  EXPECT_TRUE(std::ranges::equal(nops, found->padding));
  EXPECT_TRUE(found->padding.back() == std::byte{0} || found->padding.back() == std::byte{0x90});
  agent::FunctionPlan plan{};
  for (const auto flags : {uint8_t{0}, uint8_t{agent::FunctionPlan::kCapturesAtReturn}}) {
    plan.flags = flags;
    const auto frame = foretold({object}, *found, plan);
    ASSERT_TRUE(frame);
    EXPECT_EQ(frame->ret, found->ret);
    EXPECT_TRUE(object.maps_executable(frame->second));
    EXPECT_TRUE(mech::fits_foretold(frame->first, frame->adds - frame->first - 8, plan));
    // No more of the stack than without.
    EXPECT_LE(frame->adds, find_lender({object}, plan)->adds);
  }
}

TEST(BorrowedFrames, AreLentByTheCLibrary) {
  const auto file = c_library();
  elf::LoadedObject object;
  object.path = "/lib/x86_64-linux-gnu/libc.so.6";
  object.bias = LoadBias{0x7f0000000000};
  object.file = file;
  agent::FunctionPlan plan{};
  const auto words = find_lender({object}, plan);
  plan.flags = agent::FunctionPlan::kCapturesAtReturn;
  const auto whole = find_lender({object}, plan);
  ASSERT_TRUE(words && whole);
  EXPECT_TRUE(object.maps_executable(words->ret));
  EXPECT_LT(words->adds, sizeof(agent::WrapperFrame));
  EXPECT_GT(whole->adds, sizeof(agent::WrapperFrame));
  plan.passed.bytes = 16;
  const auto called = find_lender({object}, plan);
  ASSERT_TRUE(called && called->calls != 0);
  EXPECT_TRUE(object.maps_executable(called->ret));
  object.link_namespace = 1;  // which may go
  EXPECT_EQ(find_lender({object}, plan), std::nullopt);
}

}  // namespace
}  // namespace rtrace::session::borrowed_frames_test
