#include "rtrace/tracee/seccomp_filter.h"

#include <gmock/gmock.h>
#include <sys/syscall.h>

#include <cstddef>

namespace rtrace::tracee::seccomp_filter_test {
namespace {

using testing::Eq;
using testing::Optional;

constexpr sock_filter kLoadNumber = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
constexpr sock_filter kAllow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
constexpr sock_filter kKill = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);

seccomp_data call_of(int number, uint64_t first = 0) {
  seccomp_data call{};
  call.nr = number;
  call.args[0] = first;
  return call;
}

TEST(RunFilter, JumpsByTheNumber) {
  const sock_filter program[] = {kLoadNumber, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_read, 1, 0), kKill,
                                 kAllow};
  EXPECT_THAT(run_filter(program, call_of(SYS_read)), Optional(Eq(SECCOMP_RET_ALLOW)));
  EXPECT_THAT(run_filter(program, call_of(SYS_write)), Optional(Eq(SECCOMP_RET_KILL_PROCESS)));
}

TEST(RunFilter, CalculatesWithArgumentsAndItsMemory) {
  const sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args)),
      BPF_STMT(BPF_ST, 3),
      BPF_STMT(BPF_LDX | BPF_W | BPF_MEM, 3),
      BPF_STMT(BPF_ALU | BPF_ADD | BPF_X, 0),
      BPF_STMT(BPF_ALU | BPF_LSH | BPF_K, 1),
      BPF_STMT(BPF_JMP | BPF_JA, 1),
      kKill,
      BPF_STMT(BPF_RET | BPF_A, 0),
  };
  EXPECT_THAT(run_filter(program, call_of(0, 5)), Optional(Eq(20)));
}

TEST(RunFilter, HasNoAnswerOfWhatIsNoFilter) {
  const sock_filter beyond[] = {BPF_STMT(BPF_JMP | BPF_JA, 0xffffffff), kAllow};
  const sock_filter endless[] = {kLoadNumber};
  const sock_filter outside[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, sizeof(seccomp_data)), kAllow};
  const sock_filter no_memory[] = {BPF_STMT(BPF_ST, BPF_MEMWORDS), kAllow};
  const sock_filter by_zero[] = {BPF_STMT(BPF_ALU | BPF_DIV | BPF_X, 0), kAllow};
  const std::span<const sock_filter> programs[] = {beyond, endless, outside, no_memory, by_zero};
  for (const auto program : programs) EXPECT_EQ(run_filter(program, call_of(SYS_read)), std::nullopt);
  EXPECT_EQ(run_filter({}, call_of(SYS_read)), std::nullopt);
}

}  // namespace
}  // namespace rtrace::tracee::seccomp_filter_test
