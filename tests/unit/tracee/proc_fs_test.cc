#include "rtrace/tracee/proc_fs.h"

#include <elf.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <thread>

#include "tracee/child.h"

namespace rtrace::tracee::proc_fs_test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

// "400000-452000 r-xp 1000 173521 /usr/bin/x", with "(deleted)" behind a deleted file's path.
std::string canonical(const std::vector<MapsEntry>& entries) {
  std::string text;
  for (const MapsEntry& entry : entries) {
    text += fmt::format("{:x}-{:x} {}{}{}{} {:x} {} [{}]{}", entry.range.begin.value, entry.range.end.value,
                        entry.readable ? 'r' : '-', entry.writable ? 'w' : '-', entry.executable ? 'x' : '-',
                        entry.shared ? 's' : 'p', entry.offset.value, entry.inode, entry.path,
                        entry.deleted ? " deleted\n" : "\n");
  }
  return text;
}

TEST(Maps, EachKindOfLineIsRead) {
  struct Row {
    const char* line;
    const char* expected;
  };
  const Row rows[] = {
      {"00400000-00452000 r-xp 00001000 08:02 173521   /usr/bin/dbus-daemon",
       "400000-452000 r-xp 1000 173521 [/usr/bin/dbus-daemon]\n"},
      {"7f5a0000-7f5a1000 rw-p 00000000 00:00 0 ", "7f5a0000-7f5a1000 rw-p 0 0 []\n"},
      {"7f5a0000-7f5a1000 rw-p 00000000 00:00 0", "7f5a0000-7f5a1000 rw-p 0 0 []\n"},
      {"7f5a0000-7f5a1000 rw-s 00000000 00:01 1030 /dev/zero (deleted)",
       "7f5a0000-7f5a1000 rw-s 0 1030 [/dev/zero] deleted\n"},
      {"00e03000-00e24000 rw-p 00000000 00:00 0    [heap]", "e03000-e24000 rw-p 0 0 [[heap]]\n"},
      {"7ffc0000-7ffc2000 r-xp 00000000 00:00 0    [vdso]", "7ffc0000-7ffc2000 r-xp 0 0 [[vdso]]\n"},
      {"1000-2000 rw-p 00000000 00:00 0 [anon:my arena]", "1000-2000 rw-p 0 0 [[anon:my arena]]\n"},
      {"1000-2000 r--p 00000000 08:02 7  /opt/a b/lib  c.so", "1000-2000 r--p 0 7 [/opt/a b/lib  c.so]\n"},
      {"1000-2000 r--p 00000000 08:02 7  /opt/a b.so (deleted)",
       "1000-2000 r--p 0 7 [/opt/a b.so] deleted\n"},
      // The words alone do not make it a deleted file: there is no file.
      {"1000-2000 r--p 00000000 00:00 0 [anon:x] (deleted)", "1000-2000 r--p 0 0 [[anon:x] (deleted)]\n"},
      {"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]",
       "ffffffffff600000-ffffffffff601000 --xp 0 0 [[vsyscall]]\n"},
      {"", ""},
      {"garbage", ""},
      {"1000 r--p 00000000 08:02 7 /a", ""},
      {"1000-zz r--p 00000000 08:02 7 /a", ""},
      {"1000-2000", ""},
      {"1000-2000 r-- 00000000 08:02 7 /a", ""},
      {"1000-2000 r--p offset 08:02 7 /a", ""},
      {"1000-2000 r--p 00000000 08:02 inode /a", ""},
      {"10000000000000000-20000000000000000 r--p 00000000 08:02 7 /a", ""},
  };
  for (const Row& row : rows) EXPECT_EQ(canonical(parse_maps(row.line)), row.expected) << row.line;
}

TEST(Maps, ALineThatMakesNoSenseCostsOnlyItself) {
  const auto maps = parse_maps(
      "1000-2000 r--p 00000000 08:02 7 /a\n"
      "what is this\n"
      "3000-4000 r-xp 00001000 08:02 7 /a\n");
  ASSERT_EQ(maps.size(), 2u);
  EXPECT_EQ(maps[1].range.begin, VirtAddr{0x3000});
}

TEST(Maps, AnAddressIsFoundInTheMappingThatHoldsIt) {
  const auto maps = parse_maps(
      "1000-2000 r--p 00000000 08:02 1 /a\n"
      "2000-3000 r--p 00000000 08:02 2 /b\n"
      "5000-6000 r--p 00000000 08:02 3 /c\n");
  struct Row {
    uint64_t address;
    const char* path;  // nullptr: in none
  };
  const Row rows[] = {{0, nullptr},   {0xfff, nullptr},  {0x1000, "/a"},         {0x1fff, "/a"},
                      {0x2000, "/b"}, {0x2fff, "/b"},    {0x3000, nullptr},      {0x4fff, nullptr},
                      {0x5abc, "/c"}, {0x6000, nullptr}, {~uint64_t{0}, nullptr}};
  for (const Row& row : rows) {
    const MapsEntry* entry = find_mapping(maps, VirtAddr{row.address});
    ASSERT_EQ(entry != nullptr, row.path != nullptr) << std::hex << row.address;
    if (entry != nullptr) {
      EXPECT_EQ(entry->path, row.path);
    }
  }
  EXPECT_EQ(find_mapping({}, VirtAddr{0x1000}), nullptr);
}

TEST(Maps, OwnMapHoldsThisCodeAndThisStack) {
  const auto maps = read_maps(getpid());
  const int on_stack = 0;
  const MapsEntry* code = find_mapping(maps, VirtAddr{reinterpret_cast<uint64_t>(&read_maps)});
  const MapsEntry* stack = find_mapping(maps, VirtAddr{reinterpret_cast<uint64_t>(&on_stack)});
  ASSERT_NE(code, nullptr);
  EXPECT_TRUE(code->executable && code->file_backed() && !code->writable && !code->shared);
  ASSERT_NE(stack, nullptr);
  EXPECT_TRUE(stack->writable && !stack->file_backed());
}

constexpr const char* kStatus =
    "Name:\tmy prog\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t41\nNgid:\t0\nPid:\t42\nPPid:\t7\n"
    "TracerPid:\t9\nUid:\t1000\t1001\t1002\t1003\nGid:\t5\t6\t5\t5\nVmPeak:\t 100 kB\nVmSize:\t 90 kB\n"
    "SigPnd:\t0000000000000200\nShdPnd:\t0000000000000400\nSigBlk:\tfffffffe7ffbfeff\n"
    "SigIgn:\t0000000000001000\nSigCgt:\t0000000180000010\nCapInh:\t0000000000000000\n"
    "CapPrm:\t0000000000003000\nCapEff:\t0000000000002000\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:"
    "\t1\n";

TEST(Status, EveryFieldThatIsNeededIsRead) {
  EXPECT_EQ(parse_status("Name:\tx\nNSpid:\t42\n")->own_tid, 42);
  EXPECT_EQ(parse_status("Name:\tx\nNSpid:\t42\t7\t3\n")->own_tid, 3);
  const auto status = parse_status(kStatus);
  ASSERT_TRUE(status);
  EXPECT_EQ(status->name, "my prog");
  EXPECT_EQ(status->state, 'S');
  EXPECT_EQ(status->tgid, 41);
  EXPECT_EQ(status->parent, 7);
  EXPECT_EQ(status->tracer, 9);
  EXPECT_EQ(status->uid, 1000u);
  EXPECT_EQ(status->effective_uid, 1001u);
  EXPECT_EQ(status->saved_uid, 1002u);
  EXPECT_EQ(status->effective_gid, 6u);
  EXPECT_EQ(status->permitted, 0x3000u);
  EXPECT_EQ(status->effective, 0x2000u);
  EXPECT_TRUE(status->no_new_privileges);
  EXPECT_EQ(status->seccomp, 2);
  EXPECT_TRUE(status->has_memory);
  EXPECT_EQ(status->pending, 0x200u);
  EXPECT_EQ(status->shared_pending, 0x400u);
  EXPECT_EQ(status->blocked, 0xfffffffe7ffbfeffu);
  EXPECT_EQ(status->ignored, 0x1000u);
  EXPECT_EQ(status->caught, 0x180000010u);
}

TEST(Stat, TellsTheProcessorWhateverTheNameHolds) {
  EXPECT_EQ(parse_last_processor("7 (a) b) 39) R 1 7 7 0 -1 4194304 1 0 0 0 1 2 3 4 20 0 1 0 55 1000 90 "
                                 "18446744073709551615 1 2 3 4 5 0 0 0 0 0 0 0 17 5 0 0 0 0 0\n"),
            5);
  EXPECT_EQ(parse_last_processor("7 (a) R 1 7"), std::nullopt);
  EXPECT_EQ(parse_last_processor(""), std::nullopt);
  EXPECT_TRUE(last_processor(getpid(), gettid()));
}

TEST(Status, KernelThreadsAndTheDeadHaveNoMemory) {
  EXPECT_FALSE(parse_status("Name:\tkworker\nState:\tI (idle)\nPPid:\t2\n")->has_memory);
  EXPECT_EQ(parse_status("Name:\tkworker\nState:\tI (idle)\nPPid:\t2\n")->parent, 2);
  EXPECT_FALSE(parse_status("Name:\tx\nState:\tX (dead)\n")->has_memory);
  EXPECT_TRUE(parse_status("Name:\tx\nState:\tR (running)\nVmSize:\t1 kB\n")->has_memory);
}

TEST(Status, GarbageLeavesTheDefaultsAndNothingIsGone) {
  EXPECT_FALSE(parse_status(""));
  const auto status = parse_status("no colon here\nTgid:\tmany\nSigBlk:\t\nState:\nSeccomp:\t2x\n\n");
  ASSERT_TRUE(status);
  EXPECT_EQ(status->state, '?');
  EXPECT_EQ(status->tgid, 0);
  EXPECT_EQ(status->blocked, 0u);
}

TEST(Status, AProcessIsReadWhileItLivesAndGoneAfterwards) {
  const tests::Pipe pipe;
  tests::Child child([&] { return pipe.wait() ? 0 : 1; });
  const pid_t pid = child.pid();
  const auto status = read_status(pid);
  ASSERT_TRUE(status);
  EXPECT_EQ(status->tgid, pid);
  EXPECT_EQ(status->parent, getpid());
  EXPECT_THAT(read_tasks(pid), ElementsAre(pid));
  EXPECT_EQ(read_comm(pid), read_comm(getpid()));
  pipe.signal();
  EXPECT_EQ(child.end(), 0);
  EXPECT_FALSE(read_status(pid));
  EXPECT_THAT(read_maps(pid), IsEmpty());
  EXPECT_THAT(read_tasks(pid), IsEmpty());
  EXPECT_EQ(read_comm(pid), "");
}

int wait_for_ever(void*) {
  for (;;) syscall(SYS_pause);
}

// The one that asks is none of those: its memory changes by that.
TEST(Memory, OfOneThatRunsInItLooksLikeItAndACopyDoesNot) {
  static char stack[1 << 16];
  const auto sleep = [] { return wait_for_ever(nullptr); };
  const tests::Child copy(sleep), lender([&] {
    return clone(wait_for_ever, stack + sizeof stack, CLONE_VM | SIGCHLD, nullptr) > 0 ? sleep() : 1;
  });
  for (const tests::Child* child : {&copy, &lender}) tests::wait_until_in_syscall(child->pid(), SYS_pause);
  const auto lent = read_children(lender.pid());
  ASSERT_THAT(lent, testing::SizeIs(1));
  tests::wait_until_in_syscall(lent.front(), SYS_pause);
  for (const auto& alike : {share_memory, look_like_one_memory}) {
    EXPECT_TRUE(alike(lender.pid(), lent.front()));
    EXPECT_FALSE(alike(getpid(), copy.pid()));
    EXPECT_FALSE(alike(getpid(), lender.pid()));
  }
  EXPECT_EQ(kill(lent.front(), SIGKILL), 0);
}

std::string auxv_bytes(std::initializer_list<uint64_t> words) {
  return {reinterpret_cast<const char*>(words.begin()), words.size() * sizeof(uint64_t)};
}

TEST(Auxiliary, VectorEndsAtItsNullEntryOrWhereItIsCut) {
  struct Row {
    std::string bytes;
    Auxv expected;
  };
  const std::string two = auxv_bytes({AT_PAGESZ, 4096, AT_PHNUM, 13});
  const Row rows[] = {
      {"", {}},
      {two, {{AT_PAGESZ, 4096}, {AT_PHNUM, 13}}},
      {two + auxv_bytes({AT_NULL, 0, AT_ENTRY, 1}), {{AT_PAGESZ, 4096}, {AT_PHNUM, 13}}},
      {two.substr(0, 24), {{AT_PAGESZ, 4096}}},
      {two.substr(0, 15), {}},
      {auxv_bytes({AT_ENTRY, ~uint64_t{0}}), {{AT_ENTRY, ~uint64_t{0}}}},
  };
  for (const Row& row : rows) EXPECT_EQ(parse_auxv(row.bytes), row.expected) << row.bytes.size();
}

TEST(Auxiliary, OwnVectorNamesThePageSize) {
  EXPECT_THAT(read_auxv(getpid()), Contains(testing::Pair(uint64_t{AT_PAGESZ}, 4096u)));
}

TEST(Signals, BitsCountFromOne) {
  EXPECT_EQ(signal_bit(SIGHUP), 1u);
  EXPECT_EQ(signal_bit(SIGTRAP), 0x10u);
  EXPECT_EQ(signal_bit(64), uint64_t{1} << 63);
}

TEST(Scheduling, TasksThatGoBeforeOthersAreKnown) {
  EXPECT_FALSE(is_real_time(gettid()));
  bool known = false, set = false;
  std::thread([&] {
    const sched_param lowest{.sched_priority = sched_get_priority_min(SCHED_RR)};
    set = sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &lowest) == 0;
    known = is_real_time(gettid());
  }).join();
  EXPECT_EQ(known, set);  // which takes a privilege
}

}  // namespace
}  // namespace rtrace::tracee::proc_fs_test
