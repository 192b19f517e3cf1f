// What a task's seccomp filters say of a system call that it has not made.
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>

namespace rtrace::tracee {

// The value that a filter returns for a call (SECCOMP_RET_*, with its data). nullopt where it divides by
// zero, which kills, or is no such program: the kernel takes none that jumps out of itself or knows other
// instructions (seccomp(2), kernel: kernel/seccomp.c, seccomp_check_filter).
std::optional<uint32_t> run_filter(std::span<const sock_filter> program, const seccomp_data& call);

// Whether all filters of a task, if any, let it make that x86-64 system call: where one kills, answers itself
// or asks a tracer they do not. Says nothing of the strict mode. The task must be in a ptrace-stop. nullopt
// where that cannot be told: it takes CAP_SYS_ADMIN, no filter on ourselves, and a kernel with
// CONFIG_CHECKPOINT_RESTORE (PTRACE_SECCOMP_GET_FILTER, Linux 4.4).
std::optional<bool> filters_allow(pid_t tid, long number, std::array<uint64_t, 6> arguments = {});

}  // namespace rtrace::tracee
