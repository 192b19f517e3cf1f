// System calls made by a stopped tracee on our behalf, such that our death in the middle leaves it unharmed:
// the thread's registers, signal mask and vector state lie on its own stack as an rt_sigreturn(2) frame, and
// the code behind the `syscall` instruction runs rt_sigreturn. If nobody takes over after the call the kernel
// restores the thread.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "rtrace/arch/regs.h"
#include "rtrace/tracee/proc_fs.h"
#include "rtrace/tracee/process_memory.h"
#include "rtrace/tracee/stop.h"

namespace rtrace::tracee {

// `syscall; mov $__NR_rt_sigreturn, %eax; syscall`: what must stand, executable, at the gadget's address.
inline constexpr std::array<uint8_t, 9> kRemoteCallGadget = {0x0f, 0x05, 0xb8, 0x0f, 0x00,
                                                             0x00, 0x00, 0x0f, 0x05};

// The bytes of an rt_sigreturn frame (pretcode, ucontext, fpstate) that lies at `at` and restores these.
// Pure; `xstate` as NT_X86_XSTATE gives it. Layout: kernel arch/x86/include/asm/sigframe.h,
// arch/x86/kernel/fpu/signal.c. `at` must be a multiple of 64, less 8 (as at a signal handler's entry).
std::vector<std::byte> make_sigreturn_frame(VirtAddr at, const arch::Regs& regs, uint64_t signal_mask,
                                            std::span<const std::byte> xstate);

class RemoteCall {
 public:
  // `tid` is in a consumed ptrace-stop in which it is about to run user code at the registers it shows (a
  // pending restart already resolved by rewind_interrupted_syscall, an int3's rip taken back). Nothing is
  // changed yet.
  // `frame_area`: readable memory of ours for the frame; without it the frame lies below the thread's stack
  // pointer, and what it covers there comes back afterwards.
  RemoteCall(pid_t tid, const ProcessMemory& memory, VirtAddr gadget, Range frame_area = {});
  // Restores registers and mask; the thread stays stopped.
  ~RemoteCall();
  RemoteCall(const RemoteCall&) = delete;
  RemoteCall& operator=(const RemoteCall&) = delete;

  // The kernel's answer (-errno in -4095..-1), or nullopt where the thread died or could not be brought to
  // make the call.
  std::optional<int64_t> call(long number, std::initializer_list<uint64_t> arguments);

  // As it was before the first call, where the task is its process's only one.
  const std::optional<StatusFields>& status() const { return status_; }

  // Writable memory for what a call reads or writes, below all of the stack that is in use; good as long as
  // this object lives.
  std::optional<VirtAddr> scratch(size_t size);

 private:
  bool prepare();
  bool borrow(VirtAddr address, size_t size);
  arch::Regs at_gadget(uint64_t offset) const;
  bool run_to_syscall_stop();
  std::optional<WaitEvent> next_stop();

  pid_t tid_;
  const ProcessMemory& memory_;
  VirtAddr gadget_;
  bool prepared_ = false;
  bool failed_ = false;
  bool gone_ = false;                     // the program that made the calls
  std::set<int> came_;                    // signals that are not held back: they are sent anew
  bool awake_ = false;                    // while the stops come soon
  std::optional<StatusFields> status_{};  // where it is the process's only task
  bool suspended_ = false;                // the task's seccomp filter
  arch::Regs saved_;
  uint64_t saved_mask_ = 0;
  Range frame_area_;
  VirtAddr frame_;
  VirtAddr stack_end_;  // nothing at or above it may be touched
  std::vector<std::pair<VirtAddr, std::vector<std::byte>>> borrowed_;
};

}  // namespace rtrace::tracee
