// The bridge: a SIGTRAP handler that carries threads over int3s whose tracer has died, until somebody puts
// the bytes back. It stands where the program has the default action, and does that for every SIGTRAP that is
// not ours; or in front of the program's own handler, which gets these.
//
// Freestanding: no library, no relocation, no state but the blob's head; it never writes to code.
#include "bridge.h"

#include <asm/unistd.h>
#include <signal.h>
#include <stddef.h>
#include <ucontext.h>

#include "system.h"

namespace rtrace::agent {

const SiteEntry* find_site(const SiteTable* table, uint64_t site) {
  if (table == nullptr || table->slots == 0) return nullptr;
  uint64_t slot = site_slot(site, table->slots);
  for (uint64_t looked = 0; looked < table->slots; ++looked) {
    const SiteEntry& entry = table->entries[slot];
    if (entry.site == site) return entry.copy() != 0 ? &entry : nullptr;
    if (entry.site == 0) return nullptr;
    slot = (slot + 1) & (table->slots - 1);
  }
  return nullptr;
}

bool is_copy(const SiteTable* table, uint64_t address) {
  for (uint64_t slot = 0; table != nullptr && slot < table->slots; ++slot)
    if (table->entries[slot].site != 0 && table->entries[slot].copy() == address) return true;
  return false;
}

}  // namespace rtrace::agent

#ifdef RTRACE_BLOB

using rtrace::agent::Blob;
using rtrace::agent::kActionSize;
using rtrace::agent::kTrapBit;
using rtrace::agent::length_in_line;
using rtrace::agent::SignalCall;
using rtrace::agent::SiteEntry;
using rtrace::agent::SiteTable;

extern "C" __attribute__((visibility("hidden"))) const volatile Blob rtrace_blob;

namespace {

using rtrace::agent::kernel_can_read;
using rtrace::agent::system_call;

constexpr uint64_t kMaskSize = 8;    // sigsetsize of the rt_ system calls
constexpr greg_t kTrapFlag = 0x100;  // Intel SDM vol. 1, 3.4.3
constexpr uint8_t kInt3 = 0xcc, kIcebp = 0xf1;

// It overwrites eight bytes. Neither this nor kernel_can_read() changes the mask: who walks a thread out of
// here by steps has opened SIGTRAP in it, and each step's would find it blocked.
bool can_write(uint64_t address) {
  return system_call(__NR_rt_sigprocmask, SIG_BLOCK, 0, address, kMaskSize) == 0;
}
volatile uint64_t& word_at(uint64_t address) {
  return *reinterpret_cast<volatile uint64_t*>(address);
}

bool holds(uint64_t address, uint8_t byte) {
  return kernel_can_read(address & ~uint64_t{7}) &&
         *reinterpret_cast<const volatile uint8_t*>(address) == byte;
}

// The thread stands at the entry of pthread_sigmask(how, set, old), or is about to make that system call.
// Carried out where it would block SIGTRAP.
bool block_without_trap(SignalCall call, const greg_t* regs, uint64_t& mask) {
  const bool by_library = call == SignalCall::mask;
  if (!by_library && (regs[REG_RAX] != __NR_rt_sigprocmask || regs[REG_R10] != kMaskSize)) return false;
  const auto set = static_cast<uint64_t>(regs[REG_RSI]), old = static_cast<uint64_t>(regs[REG_RDX]);
  if (set == 0 || !kernel_can_read(set)) return false;
  const uint64_t before = mask;
  const auto how = static_cast<int>(regs[REG_RDI]);
  const uint64_t given = by_library ? rtrace::agent::set_for_kernel(how, word_at(set)) : word_at(set);
  const uint64_t after = rtrace::agent::mask_after(how, given, before);
  if ((after & kTrapBit) == 0 || (old != 0 && !can_write(old))) return false;
  mask = after & ~kTrapBit;
  if (old != 0) word_at(old) = before;
  return true;
}

// The same of sigaction(SIGTRAP, action, old), which finds the default action and may set that.
bool ask_for_default(const greg_t* regs) {
  const auto action = static_cast<uint64_t>(regs[REG_RSI]), old = static_cast<uint64_t>(regs[REG_RDX]);
  if (action != 0 && (!kernel_can_read(action) || word_at(action) != 0)) return false;
  if (old == 0) return true;
  if (!can_write(old) || !can_write(old + kActionSize - kMaskSize)) return false;
  for (uint64_t at = 0; at < kActionSize; at += kMaskSize) word_at(old + at) = 0;
  return true;
}

// The same in front of the program's own handler, which it may ask for.
bool ask_for_own(const greg_t* regs) {
  struct {
    uint64_t handler, flags, restorer, mask;
  } kernels{};
  const auto old = static_cast<uint64_t>(regs[REG_RDX]);
  if (regs[REG_RSI] != 0 || old == 0 || !can_write(old) || !can_write(old + kActionSize - kMaskSize) ||
      system_call(__NR_rt_sigaction, SIGTRAP, 0, reinterpret_cast<uint64_t>(&kernels), kMaskSize) != 0)
    return false;
  for (uint64_t at = 0; at < kActionSize; at += kMaskSize) word_at(old + at) = 0;
  word_at(old) = rtrace_blob.own_handler.address;
  word_at(old + offsetof(struct sigaction, sa_mask)) = kernels.mask;
  word_at(old + offsetof(struct sigaction, sa_flags)) = rtrace_blob.own_handler.flags;
  word_at(old + offsetof(struct sigaction, sa_restorer)) = kernels.restorer;
  return true;
}

// The same of sigaction(signal, action, old) of any other signal, which is not carried out: a handler that
// would block all signals while it runs is set with SIGTRAP open, where the action lies in its caller's
// frame. There the program might still see it.
void keep_trap_open(const greg_t* regs) {
  constexpr uint64_t kFrame = 4096, kMaskAt = offsetof(struct sigaction, sa_mask);
  const auto action = static_cast<uint64_t>(regs[REG_RSI]), mask_at = action + kMaskAt;
  if (action - static_cast<uint64_t>(regs[REG_RSP]) >= kFrame || !kernel_can_read(action) ||
      !kernel_can_read(mask_at))
    return;
  const uint64_t handler = word_at(action), mask = word_at(mask_at);
  if (handler != reinterpret_cast<uint64_t>(SIG_DFL) && handler != reinterpret_cast<uint64_t>(SIG_IGN) &&
      rtrace::agent::blocks_all(mask) && can_write(mask_at))
    word_at(mask_at) = mask & ~kTrapBit;
}

// Which the call would have to be returned through. rdsspq does nothing where there is none (Intel SDM vol.
// 2).
bool has_shadow_stack() {
  uint64_t pointer = 0;
  asm volatile("rdsspq %0" : "+r"(pointer));
  return pointer != 0;
}

enum class InFrontOf : unsigned char { standard, own };

// Where the call that begins here would block SIGTRAP, or look behind the handler, it returns at once.
bool carry_out(SignalCall call, ucontext_t* context, InFrontOf action) {
  greg_t* regs = context->uc_mcontext.gregs;
  const unsigned length = length_in_line(call);
  const bool about_trap = call == SignalCall::sigaction && static_cast<int>(regs[REG_RDI]) == SIGTRAP;
  if (call == SignalCall::sigaction && !about_trap) keep_trap_open(regs);
  if (call == SignalCall::none || (length == 0 && has_shadow_stack())) return false;
  if (rtrace::agent::is_about_mask(call)) {
    if (!block_without_trap(call, regs, *reinterpret_cast<uint64_t*>(&context->uc_sigmask))) return false;
  } else if (!about_trap || !(action == InFrontOf::own ? ask_for_own(regs) : ask_for_default(regs))) {
    return false;
  }
  regs[REG_RAX] = 0;
  regs[REG_RIP] += static_cast<greg_t>(length) - 1;  // it is behind the int3
  if (length != 0) return true;
  regs[REG_RIP] = static_cast<greg_t>(word_at(static_cast<uint64_t>(regs[REG_RSP])));
  regs[REG_RSP] += static_cast<greg_t>(sizeof(uint64_t));
  return true;
}

// That of a system call is told otherwise, and not from an icebp (arch/x86/kernel/ptrace.c,
// user_single_step_report; traps.c, handle_debug).
bool is_step(const siginfo_t* info, uint64_t rip) {
  return info->si_code == TRAP_TRACE || (info->si_code == TRAP_BRKPT && !holds(rip - 1, kIcebp));
}

bool is_noted() {
  return rtrace_blob.masked_thread != 0 && rtrace_blob.masked_thread == system_call(__NR_gettid);
}

// Where the tracer that died held the thread's signals back its own mask is still owed.
void give_mask_back(ucontext_t* context) {
  auto& mask = *reinterpret_cast<uint64_t*>(&context->uc_sigmask);
  if (rtrace::agent::holds_back(mask) && is_noted()) mask = rtrace_blob.own_mask;
}

// A step that the tracer did not live to see the end of. Delivering it has ended it where ptrace made it; who
// died just before had set the flag itself. A program that catches SIGTRAP may step itself.
bool end_step(ucontext_t* context, InFrontOf action) {
  if (action != InFrontOf::standard && !is_noted()) return false;
  context->uc_mcontext.gregs[REG_EFL] &= ~kTrapFlag;
  return true;
}

// The system-call stop that a tracer has not lived to answer: the kernel sends 0x80 | SIGTRAP, of which a
// SIGTRAP from nobody arrives (include/linux/ptrace.h, ptrace_report_syscall; kernel/signal.c,
// collect_signal).
bool is_left_over(const siginfo_t* info) {
  return info->si_code == SI_USER && info->si_pid == 0;
}

void take_default_action() {
  const uint64_t standard[4] = {};
  system_call(__NR_rt_sigaction, SIGTRAP, reinterpret_cast<uint64_t>(standard), 0, kMaskSize);
}

// Takes the signal if it is ours.
bool take(const siginfo_t* info, ucontext_t* context, InFrontOf action) {
  auto& rip = context->uc_mcontext.gregs[REG_RIP];
  give_mask_back(context);
  if (is_step(info, static_cast<uint64_t>(rip))) return end_step(context, action);
  if (is_left_over(info)) return true;
  // force_sig(SIGTRAP) of an int3 (kernel: arch/x86/kernel/traps.c, do_int3_user).
  if (info->si_code != SI_KERNEL) return false;
  const auto site = static_cast<uint64_t>(rip) - 1;
  const auto* table = reinterpret_cast<const SiteTable*>(rtrace_blob.table);
  if (const SiteEntry* entry = rtrace::agent::find_site(table, site)) {
    if (!carry_out(entry->call(), context, action)) rip = static_cast<greg_t>(entry->copy());
    return true;
  }
  // A tracer that died between its registers and the resume has carried this thread over already, or put it
  // back onto the site. What lies before a copy is the end of another, which may be an int3 (a PLT entry of
  // `jmp; int3`), and before a function there may be padding.
  const auto at = static_cast<uint64_t>(rip);
  return !holds(site, kInt3) || rtrace::agent::find_site(table, at) != nullptr ||
         rtrace::agent::is_copy(table, at);
}

}  // namespace

extern "C" __attribute__((visibility("hidden"))) void rtrace_bridge(int, const siginfo_t* info, void* frame) {
  auto* context = static_cast<ucontext_t*>(frame);
  if (take(info, context, InFrontOf::standard)) return;
  take_default_action();
  if (info->si_code == SI_KERNEL) {  // an int3 of the program's: met again under the default action
    --context->uc_mcontext.gregs[REG_RIP];
    return;
  }
  system_call(__NR_tgkill, static_cast<uint64_t>(system_call(__NR_getpid)),
              static_cast<uint64_t>(system_call(__NR_gettid)), SIGTRAP);
}

// False: the program's own handler is to have it.
extern "C" __attribute__((visibility("hidden"))) bool rtrace_screen(int, const siginfo_t* info, void* frame) {
  return take(info, static_cast<ucontext_t*>(frame), InFrontOf::own);
}

#endif
