// Signals of the program's own that find a thread in a copy, and how their handlers come back.
#include <sys/syscall.h>

#include <csignal>

#include "engine_core.h"
#include "rtrace/tracee/proc_fs.h"
#include "rtrace/tracee/thread.h"

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

// Of a fault without an address of its own si_addr is the instruction's (sigaction(2)): the program's, not
// the copy's.
void correct_fault_address(pid_t tid, int signal, VirtAddr copy, VirtAddr own) {
  if (signal != SIGFPE && signal != SIGILL && signal != SIGTRAP) return;
  auto info = tracee::signal_info(tid);
  if (!info || info->si_code <= 0 || info->si_addr != reinterpret_cast<void*>(copy.value)) return;
  info->si_addr = reinterpret_cast<void*>(own.value);
  (void)tracee::set_signal_info(tid, *info);
}

}  // namespace

// Back to the program's own code before a signal is delivered. True where the registers have changed.
bool Engine::leave_copy(Task& task, Image& image, arch::Regs& regs, int signal) {
  const VirtAddr before = regs.pc();
  const auto translation = image.space().to_program(regs);
  if (translation.changed) correct_fault_address(task.id.tid, signal, before, regs.pc());
  if (translation.replayed != nullptr) {
    const bool handled = has_handler(task.id.tid, signal);
    task.replays.taken_out(translation.replayed->address, regs.sp(),
                           handled ? Replays::Handler::runs : Replays::Handler::none);
  } else if (task.replays.knows(regs.pc(), regs.sp()) && has_handler(task.id.tid, signal)) {
    task.replays.interrupted(regs.pc(), regs.sp());
  }
  return translation.changed;
}

void Engine::go_on(Task& task, int signal) {
  if (task.replays.awaiting())
    (void)tracee::resume_to_syscall(task.id.tid, signal);
  else
    (void)tracee::resume(task.id.tid, signal);
}

// Only threads whose handler may still return to a copy's site stop here.
void Engine::on(Task& task, tracee::SyscallStop) {
  const auto regs = tracee::registers(task.id.tid);
  Image* image = task.process->image.get();
  if (regs && image != nullptr && regs->raw.orig_rax == SYS_rt_sigreturn) {
    const Memory& memory = image->space().memory();
    const auto pc = memory.read_value<uint64_t>(regs->sp() + kSavedPc);
    const auto sp = memory.read_value<uint64_t>(regs->sp() + kSavedSp);
    if (pc && sp) task.replays.handler_returns(VirtAddr{*pc}, VirtAddr{*sp});
  } else if (regs) {
    task.replays.unwound_to(regs->sp());
  }
  go_on(task, 0);
}

}  // namespace rtrace::session
