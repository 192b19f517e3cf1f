// Signals of the program's own that find a thread in a copy, and how their handlers come back.
#include <sys/syscall.h>
#include <x86intrin.h>

#include <csignal>
#include <utility>

#include "beginning.h"
#include "engine_core.h"
#include "rtrace/tracee/proc_fs.h"
#include "rtrace/tracee/thread.h"
#include "stepping.h"

namespace rtrace::session {
namespace {

// struct ucontext of the kernel's signal frame (arch/x86/include/uapi/asm/ucontext.h): flags, link and stack,
// then the registers from r8 on.
constexpr uint64_t kSavedSp = 40 + 15 * 8;
constexpr uint64_t kSavedPc = 40 + 16 * 8;

bool has_handler(pid_t tid, int signal) {
  const auto status = tracee::read_status(tid);
  return status && (status->caught & tracee::signal_bit(signal)) != 0;
}

// By the program, or by default.
bool is_ignored(pid_t tid, int signal) {
  const auto status = tracee::read_status(tid);
  if (!status) return false;
  const uint64_t bit = tracee::signal_bit(signal);
  const bool by_default =
      signal == SIGCHLD || signal == SIGCONT || signal == SIGURG || signal == SIGWINCH;  // signal(7)
  return (status->ignored & bit) != 0 || (by_default && (status->caught & bit) == 0);
}

// Of a fault without an address of its own si_addr is the instruction's (sigaction(2)): the program's, not
// the copy's.
void correct_fault_address(pid_t tid, int signal, VirtAddr copy, VirtAddr own) {
  if (signal != SIGFPE && signal != SIGILL && signal != SIGTRAP) return;
  auto info = tracee::signal_info(tid);
  if (!info || info->si_code <= 0 || info->si_addr != reinterpret_cast<void*>(copy.value)) return;
  info->si_addr = reinterpret_cast<void*>(own.value);
  (void)tracee::set_signal_info(tid, *info);
}

// 0: it stands at nothing that a trampoline has moved.
VirtAddr moved_from(const Image& image, VirtAddr pc) {
  const mech::Trampolines* trampolines = image.trampolines();
  return trampolines != nullptr ? trampolines->moved_from(pc) : VirtAddr{};
}

// What a trampoline has moved, where an instruction has faulted. Only a handler's return can be led back
// there.
bool leave_moved_code(Task& task, Image& image, arch::Regs& regs, int signal) {
  const VirtAddr before = regs.pc();
  const VirtAddr own = moved_from(image, before);
  if (!own || !has_handler(task.id.tid, signal) || !is_own_fault(task.id.tid, signal)) return false;
  const auto word = image.space().memory().read_value<uint64_t>(regs.sp());
  if (!word) return false;
  correct_fault_address(task.id.tid, signal, before, own);
  task.replays.moved(own, regs.sp(), before, *word);
  regs.set_pc(own);
  return true;
}

}  // namespace

// For a signal that may as well come a few instructions later: not one of several that are queued, for it
// would come behind the others. Where steps are none, or lead nowhere, its handler interrupts our copy.
bool Engine::waits_for_steps(Task& task, Image& image, int signal) {
  const bool in_vain = std::exchange(task.stepped_in_vain, false);
  if (image.trampolines() == nullptr || in_vain || signal >= SIGRTMIN) return false;
  const pid_t tid = task.id.tid;
  const auto regs = tracee::registers(tid);
  return regs && moved_from(image, regs->pc()) && has_handler(tid, signal) && !is_dropped(task, signal) &&
         !is_own_fault(tid, signal) && may_step_out(task, image);
}

// Back to the program's own code before a signal is delivered. True where the registers have changed.
bool Engine::leave_copy(Task& task, Image& image, arch::Regs& regs, int signal) {
  const VirtAddr before = regs.pc();
  if (const auto begin = image.space().foothold().begins_anew_at(before)) {
    regs.set_pc(*begin);
    return true;
  }
  const auto translation = image.space().to_program(regs);
  if (translation.changed) correct_fault_address(task.id.tid, signal, before, regs.pc());
  if (translation.replayed != nullptr) {
    const bool handled = has_handler(task.id.tid, signal);
    task.replays.taken_out(translation.replayed->address, regs.sp(),
                           handled ? Replays::Handler::runs : Replays::Handler::none);
  } else if (task.replays.knows(regs.pc(), regs.sp()) && has_handler(task.id.tid, signal)) {
    task.replays.interrupted(regs.pc(), regs.sp());
  }
  return translation.changed || (!is_dropped(task, signal) && leave_moved_code(task, image, regs, signal));
}

void Engine::go_on(Task& task, int signal) {
  runs_on(task);
  if (task.replays.awaiting() || task.awaits_signal_call != 0 || task.awaits_exec || shows_syscalls(task))
    (void)tracee::resume_to_syscall(task.id.tid, signal);
  else
    (void)tracee::resume(task.id.tid, signal);
}

bool Engine::shows_syscalls(const Task& task) const {
  const Process& process = *task.process;
  return options_.syscalls && !process.silent && !process.launching && process.image != nullptr;
}

// Its handler for SIGTRAP is gone when it begins (SA_RESETHAND).
void Engine::gives_up_handler(const Task& task, int signal) {
  TrapDisposition& trap = task.process->trap;
  if (signal != SIGTRAP || trap.kind != TrapDisposition::Kind::caught || !trap.action_known ||
      !resets_itself(trap))
    return;
  trap = {};
  Image* image = task.process->image.get();
  if (image != nullptr && image->pid() == task.process->pid)
    image->survival().program_set(TrapDisposition::Kind::standard, image->space());
}

// Threads whose handler may still return to a copy's site.
void Engine::watch_handlers(Task& task, const arch::Regs& regs) {
  const Image* image = task.process->image.get();
  if (image == nullptr) return task.replays.unwound_to(regs.sp());
  const tracee::ProcessMemory& memory = task.process->image->space().memory();
  if (regs.raw.orig_rax != SYS_rt_sigreturn) {
    task.replays.unwound_to(regs.sp());
    return task.replays.forget_overlaid([&](VirtAddr sp) { return memory.read_value<uint64_t>(sp); });
  }
  const auto pc = memory.read_value<uint64_t>(regs.sp() + kSavedPc);
  const auto sp = memory.read_value<uint64_t>(regs.sp() + kSavedSp);
  if (!pc || !sp) return;
  VirtAddr copy = task.replays.back_to_copy(VirtAddr{*pc}, VirtAddr{*sp});
  if (!copy && image->trampolines() != nullptr) copy = image->trampolines()->moved_to(VirtAddr{*pc});
  if (copy)
    (void)memory.write_value(regs.sp() + kSavedPc, copy.value);
  else
    task.replays.handler_returns(VirtAddr{*pc}, VirtAddr{*sp});
}

// An EINTR at the exit of a call that our interrupt has ended: this stop may be the only one that it makes.
void Engine::let_kernel_restart(pid_t tid) {
  auto regs = tracee::registers(tid);
  if (regs && tracee::let_kernel_restart(*regs, tracee::restart_of(tid, *regs)))
    (void)tracee::set_registers(tid, *regs);
}

// A signal that is ignored reaches a thread only because it is traced (kernel/signal.c, sig_ignored): its
// system call would not have ended for it, but where a group-stop has ended it before. Another ends one that
// has come back for a stop of ours after all. True where the registers have changed.
bool Engine::answer_interruption(Task& task, int signal, arch::Regs& regs) {
  const pid_t tid = task.id.tid;
  const bool by_group_stop = std::exchange(task.ended_by_group_stop, false) && signal == SIGCONT;
  arch::Regs restarted = regs;
  const bool restarts = tracee::let_kernel_restart(restarted, tracee::restart_of(tid, regs));
  const bool shown = task.syscall && task.syscall->interrupted;
  if (shown && !tracee::is_interrupted(regs)) syscalls_.handled(task);  // it had returned before
  if (!restarts && !(shown && tracee::is_interrupted(regs))) return false;
  const bool unseen = !by_group_stop && (is_ignored(tid, signal) || is_dropped(task, signal));
  if (unseen)
    SyscallTracer::goes_on(task);
  else
    syscalls_.handled(task);
  if (unseen && restarts) regs = restarted;
  return unseen && restarts;
}

// At a stop on the way out, which may be the entry of such a call.
void Engine::answer_awaited(Task& task) {
  const bool awaits = task.awaits_signal_call != 0 && task.process->image != nullptr;
  const auto info = awaits ? tracee::syscall_info(task.id.tid) : std::nullopt;
  const auto regs = info ? tracee::registers(task.id.tid) : std::nullopt;
  if (regs && info->moment == tracee::SyscallInfo::Moment::entry) {
    at_signal_system_call(task, *regs, true);
    note_withheld(*task.process);  // the call's end is not seen
  }
}

void Engine::on(Task& task, tracee::SyscallStop) {
  const pid_t tid = task.id.tid;
  const auto regs = tracee::registers(tid);
  if (regs && task.awaits_exec && begins_by_call(task, *regs)) {
    (void)tracee::consume(tid, tracee::Block::no);
    queue_.forget(tid);
    return let_begin(task);
  }
  if (regs && task.replays.awaiting()) watch_handlers(task, *regs);
  const Image* image = task.process->image.get();
  const bool ours = regs && image != nullptr && image->in_copy(regs->pc());
  // A handler returns to wherever the thread was.
  const bool returns = task.syscall && task.syscall->number == SYS_rt_sigreturn;
  const bool shown = regs && shows_syscalls(task) && (!ours || returns);
  const bool awaited = regs && image != nullptr && task.awaits_signal_call != 0 && !ours;
  if (shown || awaited) {
    // Nothing of it must be left if we die: a signal would end a call that waits.
    (void)tracee::consume(tid, tracee::Block::no);
    queue_.forget(tid);
    const auto info = tracee::syscall_info(tid);
    if (shown && info) syscalls_.observe(task, *info, *regs);
    if (task.interrupted) let_kernel_restart(tid);
    task.awaits_signal_call -= awaited;
    if (info && info->moment == tracee::SyscallInfo::Moment::entry)
      at_signal_system_call(task, *regs, awaited);
    const bool ends = info && info->moment == tracee::SyscallInfo::Moment::exit;
    // This stop has taken the place of an interrupt, or that comes before the program's next step.
    if (ends) task.interrupted = false;
    if (awaited && ends) at_handler_call(task, *regs, info->moment);
    if (ends) trap_action_is_set(task, *regs);
    if (ends && awaited && image->pid() == task.process->pid)
      raise_where_due(task, *task.process->image, [tid] { return std::optional(tid); });
  }
  go_on(task, 0);
  if (shown) syscalls_.report(task);
}

void Engine::answer_clock(const Task& task, arch::Regs& regs) {
  const uint64_t ticks = __rdtsc();
  regs.raw.rax = static_cast<uint32_t>(ticks);
  regs.raw.rdx = ticks >> 32;
  regs.set_pc(regs.pc() + mech::Foothold::kClockLength);
  (void)tracee::set_registers(task.id.tid, regs);
  if (clockless_.insert(task.process->pid).second)
    reporter_.notice(fmt::format(
        "process {} may not read the time stamp counter: each of its calls by trampoline stops for that",
        task.process->pid));
}

// The recorder has looked at memory that is not there, or at a clock that the program may not read
// (PR_SET_TSC, prctl(2); the strict mode of seccomp(2)). Or a program that steps itself (EFLAGS.TF) has come
// to what begins anew for each signal: it would for ever. True where the thread has been resumed.
bool Engine::take_fault(Task& task, int signal) {
  const pid_t tid = task.id.tid;
  Image* image = task.process->image.get();
  const bool fault = signal == SIGSEGV || signal == SIGBUS;
  if ((!fault && signal != SIGTRAP) || image == nullptr) return false;
  auto regs = tracee::registers(tid);
  if (!regs) return false;
  const mech::Foothold& foothold = image->space().foothold();
  const auto next = fault ? foothold.after_fault_at(regs->pc()) : std::nullopt;
  const bool clock = fault && foothold.reads_clock_at(regs->pc());
  const bool step = !fault && foothold.begins_anew_at(regs->pc());
  const auto info = next || clock || step ? tracee::signal_info(tid) : std::nullopt;
  if (!info || info->si_code <= 0 || (step && info->si_code != TRAP_TRACE)) return false;
  if (next) {
    image->forget_page({reinterpret_cast<uint64_t>(info->si_addr)});
    (void)tracee::set_pc(tid, *next);
  } else if (clock) {
    answer_clock(task, *regs);
  }
  (void)tracee::consume(tid, tracee::Block::no);
  queue_.forget(tid);
  go_on(task, 0);
  return true;
}

}  // namespace rtrace::session
