// The general registers of a stopped x86-64 thread, with the names that the psABI gives their roles (System V
// ABI, AMD64 supplement, 3.2.1 and 3.2.3).
#pragma once

#include <sys/user.h>

#include <cstdint>

#include "rtrace/base/address.h"

namespace rtrace::arch {

struct Regs {
  user_regs_struct raw{};

  VirtAddr pc() const { return {raw.rip}; }
  void set_pc(VirtAddr pc) { raw.rip = pc.value; }
  VirtAddr sp() const { return {raw.rsp}; }
  void set_sp(VirtAddr sp) { raw.rsp = sp.value; }
  // A worker of the kernel's that counts as a thread of the process (io_uring, vhost): it never runs the
  // process's code. The kernel marks it so for debuggers (arch/x86/kernel/process.c, copy_thread).
  bool never_in_program() const { return raw.rip == 0 && raw.rsp == 0; }
  uint64_t result() const { return raw.rax; }
  // The INTEGER class argument registers in order: rdi rsi rdx rcx r8 r9; `index` < 6.
  uint64_t integer_argument(unsigned index) const;
  // The system call arguments: rdi rsi rdx r10 r8 r9.
  uint64_t syscall_argument(unsigned index) const;
};

// Whether they differ in nothing but the program counter.
bool equal_but_pc(const Regs& one, const Regs& other);

inline constexpr unsigned kIntegerArguments = 6;
inline constexpr uint8_t kInt3 = 0xcc;
inline constexpr uint64_t kRedZone = 128;

// The address of the int3 that stopped the thread: one byte before the pc that the stop shows.
inline VirtAddr pc_at_breakpoint(const Regs& regs) {
  return regs.pc() - 1;
}

}  // namespace rtrace::arch
