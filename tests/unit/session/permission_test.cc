#include "rtrace/session/permission.h"

#include <gmock/gmock.h>
#include <linux/capability.h>
#include <unistd.h>

#include <cerrno>

namespace rtrace::session::permission_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr uint64_t kAll = ~uint64_t{0};
constexpr uint64_t kTrace = uint64_t{1} << CAP_SYS_PTRACE;
constexpr pid_t kPid = 41;

// An ordinary process of uid 1000, and rtrace without any capability under the same uid.
Standing ordinary() {
  Standing standing;
  standing.process.emplace();
  standing.process->tgid = kPid;
  standing.process->has_memory = true;
  standing.process->state = 'S';
  standing.process->uid = standing.process->effective_uid = standing.process->saved_uid = 1000;
  standing.us.uid = 1000;
  return standing;
}

struct Row {
  const char* claim;
  void (*change)(Standing&);
  std::vector<const char*> words;
};

void expect_words(const Row& row, const std::string& answer) {
  for (const char* word : row.words) EXPECT_THAT(answer, HasSubstr(word)) << row.claim;
}

TEST(Permission, NothingStandsAgainstAnOrdinaryProcess) {
  EXPECT_THAT(why_not_attachable(kPid, ordinary()), IsEmpty());
}

TEST(Permission, WhatCanBeKnownBeforeTryingIsSaid) {
  const Row rows[] = {
      {"nothing there", [](Standing& s) { s.process.reset(); }, {"no such process"}},
      {"a thread", [](Standing& s) { s.process->tgid = 40; }, {"thread of process 40", "attach to 40"}},
      {"a zombie", [](Standing& s) { s.process->state = 'Z'; }, {"zombie", "parent"}},
      {"a zombie with threads",
       [](Standing& s) { s.process->state = 'Z', s.leaderless = true; },
       {"main thread has ended"}},
      {"dead", [](Standing& s) { s.process->state = 'X'; }, {"zombie"}},
      {"a kernel thread",
       [](Standing& s) { s.process->has_memory = false, s.process->parent = 2; },
       {"kernel thread"}},
      {"whose memory has gone before it", [](Standing& s) { s.process->has_memory = false; }, {"has ended"}},
      {"ourselves", [](Standing& s) { s.ourselves = true; }, {"rtrace itself"}},
      {"another tracer",
       [](Standing& s) { s.tracer = 77, s.thread = kPid, s.tracer_name = "strace"; },
       {"process 77 (strace) is tracing it", "end that first"}},
      {"another tracer of one thread",
       [](Standing& s) { s.tracer = 77, s.thread = 43, s.tracer_name = "gdb"; },
       {"process 77 (gdb)", "its thread 43"}},
      {"an engine that was left alone",
       [](Standing& s) {
         s.tracer = 77, s.thread = kPid, s.tracer_name = "rtrace-engine", s.tracer_leaves = true;
       },
       {"process 77 (rtrace-engine)", "has not left it yet", "try again"}},
  };
  for (const Row& row : rows) {
    Standing standing = ordinary();
    row.change(standing);
    expect_words(row, why_not_attachable(kPid, standing));
  }
}

TEST(Permission, WhatTheKernelRefusesHasItsCauseAndItsFix) {
  const Row rows[] = {
      {"another tracer, in the meantime",
       [](Standing& s) { s.tracer = 77, s.thread = kPid, s.tracer_name = "gdb"; },
       {"process 77 (gdb) is tracing it"}},
      {"another user",
       [](Standing& s) { s.us.uid = 7; },
       {"belongs to uid 1000", "rtrace runs as uid 7", "run rtrace as that user or as root"}},
      {"a set-user-id program",
       [](Standing& s) { s.process->effective_uid = 0; },
       {"set-user-id", "acts as uid 0", "run rtrace as root"}},
      {"a saved user id alone", [](Standing& s) { s.process->saved_uid = 0; }, {"set-user-id"}},
      {"not dumpable",
       [](Standing& s) { s.dumpable = false; },
       {"not dumpable", "PR_SET_DUMPABLE", "as root"}},
      {"more capabilities than ours",
       [](Standing& s) { s.process->permitted = kTrace; },
       {"capabilities that rtrace has not", "run rtrace as root"}},
      {"root without the capability",
       [](Standing& s) { s.us.uid = 0, s.us.permitted = s.us.effective = kAll & ~kTrace; },
       {"belongs to uid 1000", "CAP_SYS_PTRACE is missing", "--cap-add=SYS_PTRACE"}},
      {"Yama, descendants only",
       [](Standing& s) { s.yama_scope = "1"; },
       {"ptrace_scope is 1", "descendants", "ptrace_scope=0"}},
      {"Yama, capability only",
       [](Standing& s) { s.yama_scope = "2"; },
       {"ptrace_scope is 2", "CAP_SYS_PTRACE", "run rtrace as root"}},
      {"nothing to be seen", [](Standing&) {}, {"another tracer", "security module", "seccomp"}},
      {"nothing to be seen, with the capability",
       [](Standing& s) { s.us.effective = kAll; },
       {"though rtrace has CAP_SYS_PTRACE", "another tracer", "user namespace", "security module"}},
  };
  for (const Row& row : rows) {
    Standing standing = ordinary();
    row.change(standing);
    expect_words(row, why_seize_failed(standing, EPERM));
  }
}

TEST(Permission, YamaThatAllowsNobodyHasNoFixBeforeTheNextBoot) {
  Standing standing = ordinary();
  standing.yama_scope = "3";
  standing.us.effective = kAll;
  EXPECT_THAT(why_seize_failed(standing, EPERM),
              AllOf(HasSubstr("ptrace_scope is 3"), HasSubstr("next boot"), Not(HasSubstr("sysctl"))));
}

TEST(Permission, AnotherUserComesBeforeYamaForThatIsWhatTheKernelChecksFirst) {
  Standing standing = ordinary();
  standing.us.uid = 7;
  standing.yama_scope = "1";
  EXPECT_THAT(why_seize_failed(standing, EPERM), Not(HasSubstr("ptrace_scope")));
}

TEST(Permission, YamaThatForbidsNothingIsNotBlamed) {
  Standing standing = ordinary();
  standing.yama_scope = "0";
  EXPECT_THAT(why_seize_failed(standing, EPERM), Not(HasSubstr("ptrace_scope")));
}

TEST(Permission, AProcessThatEndedIsNoMatterOfPermission) {
  EXPECT_EQ(why_seize_failed(ordinary(), ESRCH), "it has ended");
  EXPECT_EQ(why_seize_failed(Standing{}, EPERM), "it has ended");
}

TEST(Permission, AFirstThreadThatEndsMayMakePlaceForAnother) {
  EXPECT_FALSE(first_thread_ends(kPid, ordinary()));
  EXPECT_FALSE(first_thread_ends(kPid, Standing{}));
  Standing ending = ordinary();
  ending.process->has_memory = false;  // no zombie yet
  EXPECT_TRUE(first_thread_ends(kPid, ending));
  ending.process->parent = 2;  // kthreadd: it never had any
  EXPECT_FALSE(first_thread_ends(kPid, ending));
  Standing ended = ordinary();
  ended.process->state = 'Z';
  EXPECT_TRUE(first_thread_ends(kPid, ended));
}

TEST(Permission, TheStandingOfALiveProcessIsRead) {
  const Standing standing = standing_of(getppid());
  ASSERT_TRUE(standing.process);
  EXPECT_TRUE(standing.ourselves);  // a front end is its engine's parent
  EXPECT_EQ(standing.us.uid, getuid());
  EXPECT_EQ(standing.tracer, 0);
}

}  // namespace
}  // namespace rtrace::session::permission_test
