#include "rtrace/tracee/interrupted_syscall.h"

#include <sys/syscall.h>

#include <cerrno>

#include "rtrace/tracee/proc_fs.h"
#include "rtrace/tracee/seccomp_filter.h"

namespace rtrace::tracee {
namespace {

// Kernel-internal results (include/linux/errno.h); user code never sees them, a tracer does.
constexpr int64_t kRestartSys = 512, kRestartNoIntr = 513, kRestartNoHand = 514, kRestartBlock = 516;
constexpr uint64_t kSyscallLength = 2;

bool is_for_its_block(const arch::Regs& regs) {
  return static_cast<int64_t>(regs.raw.orig_rax) >= 0 && static_cast<int64_t>(regs.raw.rax) == -kRestartBlock;
}

}  // namespace

bool is_interrupted(const arch::Regs& regs) {
  const auto result = static_cast<int64_t>(-regs.raw.rax);
  return static_cast<int64_t>(regs.raw.orig_rax) >= 0 &&
         (result == EINTR || result == kRestartSys || result == kRestartNoIntr || result == kRestartNoHand ||
          result == kRestartBlock);
}

Restart restart_of(pid_t tid, const arch::Regs& regs) {
  if (!is_for_its_block(regs)) return Restart::by_block;
  if (const auto allowed = filters_allow(tid, SYS_restart_syscall))
    return *allowed ? Restart::by_block : Restart::anew;
  const Seccomp seccomp = seccomp_of(tid);
  return seccomp == Seccomp::none || seccomp == Seccomp::trusted ? Restart::by_block : Restart::anew;
}

std::optional<InterruptedSyscall> rewind_interrupted_syscall(arch::Regs& regs, Restart restart) {
  if (static_cast<int64_t>(regs.raw.orig_rax) < 0) return std::nullopt;  // not in a system call
  const auto result = static_cast<int64_t>(-regs.raw.rax);
  uint64_t number = regs.raw.orig_rax;
  switch (result) {
    case EINTR:  // epoll_wait and others give up on any interruption; they hold no state that a second call
                 // would miss
    case kRestartSys:
    case kRestartNoIntr:
    case kRestartNoHand:
      break;
    case kRestartBlock:
      if (restart == Restart::by_block) number = SYS_restart_syscall;
      break;
    default:
      return std::nullopt;
  }
  InterruptedSyscall interrupted{regs.pc() - kSyscallLength, regs.raw.rax, regs.raw.orig_rax};
  regs.set_pc(interrupted.instruction);
  regs.raw.rax = number;
  regs.raw.orig_rax = static_cast<uint64_t>(-1);
  return interrupted;
}

bool let_kernel_restart(arch::Regs& regs, Restart restart) {
  const bool anew = restart == Restart::anew && is_for_its_block(regs);
  if (static_cast<int64_t>(regs.raw.orig_rax) < 0 || (!anew && static_cast<int64_t>(regs.raw.rax) != -EINTR))
    return false;
  regs.raw.rax = static_cast<uint64_t>(-kRestartNoHand);
  return true;
}

bool undo_rewind(const InterruptedSyscall& interrupted, arch::Regs& regs) {
  if (regs.pc() != interrupted.instruction) return false;
  regs.set_pc(interrupted.instruction + kSyscallLength);
  regs.raw.rax = interrupted.rax;
  regs.raw.orig_rax = interrupted.orig_rax;
  return true;
}

}  // namespace rtrace::tracee
