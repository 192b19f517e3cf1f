// The program's own SIGTRAP state, which each int3 of ours destroys where it is anything but the default.
//
// When an int3 hits and SIGTRAP is blocked or ignored, the kernel unblocks it, resets the disposition to
// SIG_DFL and delivers (kernel/signal.c, force_sig_info_to_task), and at the stop the old state can no longer
// be seen. So it is known before: from /proc at attach, exec and a thread's birth, from the mask at
// signal-delivery-stops, and from the arguments of the calls that change it, which have internal sites. What
// a raw system call changes is not seen, nor what handlers begin and end with; but a handler that is gone
// behind a hit has been taken away by one, if nothing else of its action has changed.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <string_view>

#include "need_stopped.h"
#include "rtrace/agent/signal_calls.h"
#include "rtrace/arch/regs.h"
#include "rtrace/base/memory.h"
#include "rtrace/mech/address_space.h"
#include "rtrace/tracee/proc_fs.h"

namespace rtrace::session {

// The kernel's struct sigaction: handler, flags, restorer, mask.
using KernelAction = std::array<uint64_t, 4>;

// Of a process (dispositions are its own, fork and vfork copy them).
struct TrapDisposition {
  enum class Kind : uint8_t { standard, ignored, caught };
  Kind kind = Kind::standard;
  bool action_known = false;
  KernelAction action{};  // of `caught`, once it could be asked for; of `ignored`, as far as it is known
  // Of `ignored`: the kernel has the default, and what others send is dropped by us. Setting SIG_IGN discards
  // what is pending in all threads (kernel/signal.c, do_sigaction), and one that has met an int3 of ours just
  // then would run on behind it.
  bool withheld = false;
};

// Of a thread: whether the program's mask holds SIGTRAP, and whether it holds all other signals too, as masks
// do that last for a moment. Of these SIGTRAP is kept open while the thread is traced, by us or because an
// int3 has met it and the kernel has unblocked it: one that meets it blocked kills where no tracer lives.
// `found`: its mask held it, and no call was seen to be why. `in_handler`: since a handler began, whose
// return is not seen, and gives the mask back.
enum class TrapBlocked : uint8_t { no, yes, found, in_handler, with_all, kept_open };
inline bool is_blocked_alone(TrapBlocked blocked) {
  return blocked == TrapBlocked::yes || blocked == TrapBlocked::found || blocked == TrapBlocked::in_handler;
}
inline bool is_with_all(TrapBlocked blocked) {
  return blocked == TrapBlocked::with_all || blocked == TrapBlocked::kept_open;
}

// How the functions of libc that change signal state take their arguments.
struct SignalCall {
  using Kind = agent::SignalCall;
  std::string_view name;
  Kind kind = Kind::none;
};
// Those of masks each behind those that it calls itself.
const std::vector<SignalCall>& signal_calls();
// Whether a function of that name is watched where it is called, for what it does to the mask.
bool changes_masks(std::string_view name);

// What /proc says.
TrapDisposition trap_disposition_in(const tracee::StatusFields& status);
TrapDisposition read_trap_disposition(pid_t pid);
TrapBlocked read_trap_blocked(pid_t tid);
TrapBlocked trap_blocked_in(uint64_t mask);
// The same of a stopped thread's mask; what was kept open stays so.
TrapBlocked trap_blocked_now(uint64_t mask, TrapBlocked before);
// What an int3 that meets SIGTRAP blocked finds waiting comes in its place (kernel/signal.c, legacy_queue):
// of the thread's own signals. Where it was blocked shows by the mask alone, for threads block signals
// unseen.
bool taken_for_hit(pid_t tid);
// Of a stopped thread that has kept it open: SIGTRAP is blocked again.
void close_trap(pid_t tid);
// Whether the process has a handler for it.
bool catches_trap(pid_t tid);
// Its first signal ends it (SA_RESETHAND). Only of an action that is known.
bool resets_itself(const TrapDisposition& disposition);
// Asks a task in a consumed stop for the handler that no hit has reset yet.
void learn_trap_action(pid_t tid, TrapDisposition& disposition, mech::AddressSpace& space);

// A thread of the process stands at the entry of such a call.
void observe_signal_call(SignalCall::Kind kind, const arch::Regs& regs, const Memory& memory,
                         TrapDisposition& disposition, TrapBlocked& blocked);

// The arguments of pthread_sigmask(), sigaction() and signal(), and of the system calls behind them.
struct SignalArguments {
  uint64_t first = 0;
  VirtAddr second, third;
  bool by_library = false;  // which leaves some signals out
};
// Whether the call asks for an action, or sets the default.
bool leaves_default(SignalCall::Kind kind, const SignalArguments& call, const Memory& memory);

// What a call that begins comes to where it ends at once: the thread's registers then, and its mask where
// that changes. Of a stopped thread in a process where our handler stands for the default action:
// pthread_sigmask() that blocks all signals and keeps SIGTRAP open, or that is made in a thread which has it
// open so; and sigaction(SIGTRAP) that asks for the action or sets the default. What the program is to find
// is written, and noted in `blocked`; nothing where the call is to be made.
struct CarriedOut {
  arch::Regs regs;
  std::optional<uint64_t> mask;
  bool repeatable = false;  // once more it comes to the same, in a thread that has the new mask
};
// At the stop at a system call's entry: the handler for SIGTRAP that it sets, with what the C library adds.
bool learn_from_system_call(const arch::Regs& regs, const Memory& memory, TrapDisposition& disposition);

// There too, of a call by the C library that has SIGTRAP ignored: the kernel is given the default in its
// place.
bool withhold_ignoring(const arch::Regs& regs, const tracee::ProcessMemory& memory);

// At the function's entry, or the instruction.
std::optional<CarriedOut> carry_out_function(pid_t tid, SignalCall::Kind kind, arch::Regs regs,
                                             const tracee::ProcessMemory& memory, TrapBlocked& blocked);
// At the entry of sigaction(SIGTRAP) that only asks, in a process in front of whose handler ours stands: told
// is the one that is known.
std::optional<CarriedOut> answer_for_own(arch::Regs regs, const tracee::ProcessMemory& memory,
                                         const TrapDisposition& disposition);
// At the stop at a system call's entry.
std::optional<CarriedOut> carry_out_system_call(pid_t tid, arch::Regs regs,
                                                const tracee::ProcessMemory& memory, TrapBlocked& blocked);

// A handler that is known, and does not stand any more, behind a hit: true where that took it away. Of a task
// in a consumed stop.
bool put_back_handler(pid_t tid, TrapDisposition& disposition, mech::AddressSpace& space);

// After a hit: puts back what the kernel took away. `need_stopped` as for remote calls. `look`: the thread's
// mask is read even where nothing is known of it, for one that holds all other signals held SIGTRAP too.
// `alone`: the process has no other thread whose hit may have taken the handler away, or may be lost.
enum class Look : bool { no, yes };
void restore_trap_state(pid_t tid, TrapDisposition& disposition, TrapBlocked& blocked, Look look, bool alone,
                        mech::AddressSpace& space, const NeedStopped& need_stopped);

}  // namespace rtrace::session
