// A target that fills all its registers and says by its exit status whether they, its signal mask and its
// alternate stack were kept; and the gadget for remote calls in it.
#pragma once

#include <sys/syscall.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "rtrace/tracee/remote_call.h"
#include "tracee/child.h"
#include "tracee/register_loop.h"

namespace rtrace::tests {

// The gadget in a page that the children inherit.
class Gadget {
 public:
  Gadget() {
    std::memcpy(page_.data(), tracee::kRemoteCallGadget.data(), tracee::kRemoteCallGadget.size());
    page_.protect(PROT_READ | PROT_EXEC);
  }
  VirtAddr address() const { return page_.address(); }
  VirtAddr sigreturn() const { return page_.address() + 2; }

 private:
  Pages page_{1, PROT_READ | PROT_WRITE};
};

// Signals that the target blocks, and its alternate stack: nothing of ours may change them.
inline constexpr uint64_t kBlocked =
    tracee::signal_bit(SIGUSR1) | tracee::signal_bit(SIGWINCH) | tracee::signal_bit(40);
alignas(16) inline char alternate_stack[16384];

inline uint64_t own_mask() {
  uint64_t mask = 0;
  syscall(SYS_rt_sigprocmask, SIG_BLOCK, nullptr, &mask, sizeof mask);
  return mask;
}

// The body of a target that answers by its exit status: 0 where all was kept, else a bit for each thing that
// was not.
inline int keep_registers(RegisterLoop& loop) {
  const uint64_t blocked = kBlocked;
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &blocked, nullptr, sizeof blocked);
  stack_t stack{};
  stack.ss_sp = alternate_stack;
  stack.ss_size = sizeof alternate_stack;
  sigaltstack(&stack, nullptr);
  errno = 77;
  rtrace_test_register_loop(&loop);
  int spoilt = errno == 77 ? 0 : 1;
  if (loop.spoilt != 0) spoilt |= 2;
  if (!loop.vectors_kept()) spoilt |= 4;
  if (!(loop.pi > 3.14159265358979L && loop.pi < 3.14159265358980L)) spoilt |= 8;
  if (own_mask() != kBlocked) spoilt |= 16;
  stack_t now{};
  if (sigaltstack(nullptr, &now) != 0 || now.ss_sp != alternate_stack || now.ss_flags != 0 ||
      now.ss_size != sizeof alternate_stack)
    spoilt |= 32;
  return spoilt;
}

// A target inside its register loop.
class Looping {
 public:
  Looping() {
    loop_->fill_patterns();
    child_.emplace([this] {
      // A tracer of ours may be a sibling.
      prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
      return keep_registers(*loop_);
    });
    while (loop_->state.load() != RegisterLoop::kLooping) sched_yield();
  }
  pid_t pid() const { return child_->pid(); }
  int finish() {
    loop_->state = RegisterLoop::kGoOn;
    return child_->end();
  }

 private:
  SharedValue<RegisterLoop> loop_;
  std::optional<Child> child_;
};

// What the thread will run on with; a tracer sees orig_rax, the program does not.
inline std::string show(const arch::Regs& regs) {
  const auto& r = regs.raw;
  return fmt::format(
      "{:x} {:x} {:x} {:x} {:x} {:x} {:x} {:x} | {:x} {:x} {:x} {:x} {:x} {:x} {:x} {:x} | rip {:x} "
      "flags {:x} cs {:x} ss {:x} fs {:x} gs {:x}",
      r.rax, r.rbx, r.rcx, r.rdx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14,
      r.r15, r.rip, r.eflags, r.cs, r.ss, r.fs_base, r.gs_base);
}

}  // namespace rtrace::tests
