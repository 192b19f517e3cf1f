// A thread that was inside a system call when we stopped it must not learn of it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "rtrace/arch/regs.h"

namespace rtrace::tracee {

// What the kernel had put into the registers of an interrupted system call, so that it can be put back.
struct InterruptedSyscall {
  VirtAddr instruction;   // the `syscall` instruction, where the thread stands after the rewind
  uint64_t rax = 0;       // -EINTR or -ERESTART*
  uint64_t orig_rax = 0;  // the system call's number
  bool operator==(const InterruptedSyscall&) const = default;
};

// How a call that ended with -ERESTART_RESTARTBLOCK (nanosleep, poll, futex with a timeout) goes on.
enum class Restart : uint8_t {
  by_block,  // restart_syscall(2): with the time that remains
  anew,      // the call itself
};

// Whether the task is on its way out of a system call that has been interrupted: by -EINTR or -ERESTART*.
bool is_interrupted(const arch::Regs& regs);

// Anew under a seccomp filter that has let the call through and forbids restart_syscall, or of which that
// cannot be told and which nobody trusts. Then a relative time begins anew too, but for those that take
// what remains from where they left it (glibc's sleep). Looks closer only where `regs` show that result. The
// task must be in a ptrace-stop.
Restart restart_of(pid_t tid, const arch::Regs& regs);

// Rewinds `regs` of a thread stopped by PTRACE_INTERRUPT so that resuming it issues the system call again:
// rip goes back over the instruction, rax becomes the call's number again (or restart_syscall's), orig_rax -1
// so that the kernel does not do it a second time. The answer is what to undo; nullopt, and untouched
// registers, where no system call was interrupted (kernel: arch/x86/kernel/signal.c,
// arch_do_signal_or_restart).
std::optional<InterruptedSyscall> rewind_interrupted_syscall(arch::Regs& regs, Restart restart);

// The same decision left to the kernel, for a thread in the very stop that our interrupt has made, which lies
// in the kernel's signal path: a plain -EINTR becomes -ERESTARTNOHAND, and so does -ERESTART_RESTARTBLOCK
// that is to begin anew. Then the system call is issued again where no signal comes, and returns EINTR where
// a handler runs first (arch/x86/kernel/signal.c, handle_signal): no signal can slip in between. True where
// the registers have changed.
bool let_kernel_restart(arch::Regs& regs, Restart restart);

// At a signal-delivery-stop that follows: if the thread still stands at the rewound instruction, the signal
// is what interrupts the call, and the program is entitled to its EINTR. Puts the registers back so that the
// kernel decides (EINTR or restart by SA_RESTART) as it would have.
bool undo_rewind(const InterruptedSyscall& interrupted, arch::Regs& regs);

}  // namespace rtrace::tracee
