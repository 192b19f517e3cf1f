// One traced task, as ptrace(2) sees it. The only module with ptrace and waitid.
//
// Every call answers "is it still there?": a task can be killed at any moment, stopped or not, and ESRCH is
// how the kernel says so.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "rtrace/arch/regs.h"
#include "rtrace/arch/vector_regs.h"
#include "rtrace/tracee/stop.h"

namespace rtrace::tracee {

// The answer of a request to a task. `gone`: dead, or not in a ptrace-stop; its end will be reported by wait.
enum class [[nodiscard]] Alive : bool{gone, yes};

// Becomes the tracer of a task that runs on (PTRACE_SEIZE with TRACEFORK, TRACEVFORK, TRACECLONE, TRACEEXEC,
// TRACESYSGOOD). Returns 0 or the errno: EPERM, ESRCH.
int seize(pid_t tid);

// Each task that is seized from now on, and those that it makes, stop once more when they are about to end,
// with their memory as it is (PTRACE_EVENT_EXIT; after a SIGKILL the kernel may leave it out). `look` is
// called with the stopped task within any wait of this module, in the midst of whatever waits: it may read
// from the task, and make no other request. The task then ends; no wait tells of that stop.
void look_at_ends(std::function<void(pid_t)> look);
// Whether it stops then; for a task in a ptrace-stop, and what that makes.
enum class AtEnd : bool { runs, stops };
Alive set_at_end(pid_t tid, AtEnd what);

// Of a running task: it will report Interrupted. No-op on one that is stopped.
Alive interrupt(pid_t tid);

// The following need the task in a ptrace-stop.
std::optional<arch::Regs> registers(pid_t tid);
// The program counter alone: cheaper, where nothing else has changed (PTRACE_POKEUSER).
Alive set_pc(pid_t tid, VirtAddr pc);
Alive set_registers(pid_t tid, const arch::Regs& regs);
Alive resume(pid_t tid, int signal = 0);
Alive resume_to_syscall(pid_t tid, int signal = 0);
// For the time of our own calls: no filter sees them. False where the kernel refuses.
bool suspend_seccomp(pid_t tid, bool suspended);
// Runs one instruction, behind the delivery of `signal`: never on the path of an ordinary hit.
Alive step(pid_t tid, int signal = 0);
// The trap flag in its registers (Intel SDM vol. 1, 3.4.3): each instruction raises SIGTRAP from then on,
// whether a tracer lives or not.
void set_trap_flag(pid_t tid, bool on);
// From the stop behind a step to another, of an interrupt, without an instruction in between. Only that or
// the next resume takes the step back: if we died first, the next instruction would raise SIGTRAP, for the
// death of a tracer does not (kernel/ptrace.c, __ptrace_unlink). False where the task has ended.
bool end_stepping(pid_t tid);
// From an event stop inside a system call (exec, fork) to the stop at its end, consumed.
Alive leave_syscall(pid_t tid);
Alive listen(pid_t tid);
// From now on a vfork of the task ends with a stop of its own (an OtherEvent), before it runs on.
Alive stop_at_vfork_end(pid_t tid);
Alive detach(pid_t tid, int signal = 0);
std::optional<unsigned long> event_message(pid_t tid);
std::optional<siginfo_t> signal_info(pid_t tid);
Alive set_signal_info(pid_t tid, siginfo_t info);
std::optional<uint64_t> signal_mask(pid_t tid);
Alive set_signal_mask(pid_t tid, uint64_t mask);
// Floating-point and SSE registers, for arguments and results (PTRACE_GETFPREGS).
std::optional<arch::VectorRegs> vector_registers(pid_t tid);
// The XSAVE area in its standard format (NT_X86_XSTATE).
std::optional<std::vector<std::byte>> extended_state(pid_t tid);

// PTRACE_GET_SYSCALL_INFO: what a system-call stop is about (Linux 5.3). Of any other stop: none.
struct SyscallInfo {
  enum class Moment : uint8_t { none, entry, exit };
  Moment moment = Moment::none;
  uint32_t architecture = 0;  // AUDIT_ARCH_*
  uint64_t number = 0;        // of an entry
  std::array<uint64_t, 6> arguments{};
  int64_t result = 0;  // of an exit: -errno where it failed
};
std::optional<SyscallInfo> syscall_info(pid_t tid);

// Waiting.
enum class Block : bool { no, yes };
// Any task. The stop is peeked (WNOWAIT) and stays reportable until the task is resumed, so that the engine's
// death before that leaves a SIGTRAP with the kernel instead of a thread in the middle of an instruction.
// nullopt: nothing to report, or a signal of ours interrupted the wait; `no_children` tells that there is
// nothing to wait for.
struct PeekAnswer {
  std::optional<WaitEvent> event;
  bool no_children = false;
};
PeekAnswer peek_any(Block block);
// One task, peeked, without blocking.
std::optional<WaitEvent> peek(pid_t tid);
// One task; the stop or end is consumed.
std::optional<WaitEvent> consume(pid_t tid, Block block);
// The same in a call of ours, first for the moment in which its stops come, and without sleep: being woken
// across processors takes longer than most of them; not for a tracee that may need our processor. An exec's
// stop is peeked only: it is another program's, and for those to handle who know it.
std::optional<WaitEvent> call_stop_awake(pid_t tid);
std::optional<WaitEvent> call_stop_within(pid_t tid, unsigned milliseconds);
// Whether the scheduler may choose another processor for what we resume.
bool may_run_elsewhere();
// After a remote call: from its stop, outside of the kernel's signal path, into one of our interrupt, inside
// it, where alone the kernel restarts system calls. Answers the signal that came first and that the thread is
// owed at its detach; 0: none.
int stop_in_signal_path(pid_t tid);
// One task, consumed, waiting at most so long. Nothing, too, where it has ended and waits for the end of all
// other threads to be told of that.
std::optional<WaitEvent> consume_within(pid_t tid, unsigned milliseconds);
// The same for a stop that is asked for while the task runs, so that another may come first: a signal, an
// int3's too, is peeked only. Consuming takes it from the kernel (kernel/exit.c, wait_task_stopped, clears
// the exit code that ptrace_signal goes by), and our death would be the loss of it: it is consumed when the
// registers are those that the task may run on with, or not at all where it is resumed with the signal.
std::optional<WaitEvent> stop_now(pid_t tid);
std::optional<WaitEvent> stop_awake(pid_t tid);
std::optional<WaitEvent> stop_within(pid_t tid, unsigned milliseconds);

}  // namespace rtrace::tracee
