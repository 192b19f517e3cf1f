#include "rtrace/mech/handler_masks.h"

#include <sys/syscall.h>

#include <cstddef>

#include "kernel_action.h"
#include "rtrace/agent/signal_calls.h"

namespace rtrace::mech {
namespace {

constexpr unsigned kSignals = 64;
constexpr uint64_t kFrame = 4096;

bool handles(const KernelAction& action) {
  return !action.is_default() && !action.ignores();
}

bool is_open(const KernelAction& action) {
  return (action.mask & agent::kTrapBit) == 0 && agent::blocks_all(action.mask | agent::kTrapBit);
}

// Another thread may have set one since we looked: that stands then.
bool replace(KernelActions& actions, int signal, const KernelAction& action, const KernelAction& next) {
  const auto last = actions.exchange(signal, next);
  if (!last || *last == action) return last.has_value();
  (void)actions.exchange(signal, *last);
  return false;
}

// The C library's copy of an action: in the caller's frame, and nobody else's.
bool in_frame(uint64_t address, const arch::Regs& regs) {
  return address - regs.sp().value < kFrame;
}

// Of which signal the call sets an action, or asks for it; 0: of none.
unsigned signal_of(const arch::Regs& regs) {
  const uint64_t signal = regs.raw.orig_rax == SYS_rt_sigaction ? regs.syscall_argument(0) : 0;
  return signal <= kSignals ? static_cast<unsigned>(signal) : 0;
}

// Of an action that may have been changed for our sake: as the program has set it.
std::optional<KernelAction> as_set(unsigned signal, const KernelAction& action) {
  KernelAction own = action;
  if (signal == SIGTRAP && action.is_default())
    own.handler = reinterpret_cast<uint64_t>(SIG_IGN);
  else if (signal != SIGTRAP && handles(action) && is_open(action))
    own.mask |= agent::kTrapBit;
  return own == action ? std::nullopt : std::optional(own);
}

}  // namespace

void open_handler_masks(const BridgeSite& at, uint64_t handlers, const std::function<void(uint64_t)>& note) {
  handlers &= ~(agent::kTrapBit | agent::kReservedSignals);
  if (handlers == 0) return;
  tracee::RemoteCall remote(at.stopped, at.memory, at.gadget, at.frame_area);
  KernelActions actions(at.memory, remote);
  uint64_t opened = 0;
  for (unsigned signal = 1; signal <= kSignals; ++signal) {
    if ((handlers & agent::bit_of_signal(signal)) == 0) continue;
    const auto number = static_cast<int>(signal);
    const auto action = actions.get(number);
    if (!action) break;
    if (!handles(*action) || !agent::blocks_all(action->mask)) continue;
    KernelAction open = *action;
    open.mask &= ~agent::kTrapBit;
    note(opened | agent::bit_of_signal(signal));
    if (replace(actions, number, *action, open)) opened |= agent::bit_of_signal(signal);
  }
  note(opened);
}

bool has_handler_that_blocks_all(const BridgeSite& at, uint64_t handlers) {
  handlers &= ~(agent::kTrapBit | agent::kReservedSignals);
  if (handlers == 0) return false;
  tracee::RemoteCall remote(at.stopped, at.memory, at.gadget, at.frame_area);
  KernelActions actions(at.memory, remote);
  for (unsigned signal = 1; signal <= kSignals; ++signal) {
    if ((handlers & agent::bit_of_signal(signal)) == 0) continue;
    const auto action = actions.get(static_cast<int>(signal));
    if (!action || (handles(*action) && agent::blocks_all(action->mask))) return true;
  }
  return false;
}

void close_handler_masks(const BridgeSite& at, uint64_t opened) {
  if (opened == 0) return;
  tracee::RemoteCall remote(at.stopped, at.memory, at.gadget, at.frame_area);
  KernelActions actions(at.memory, remote);
  for (unsigned signal = 1; signal <= kSignals; ++signal) {
    if ((opened & agent::bit_of_signal(signal)) == 0) continue;
    const auto number = static_cast<int>(signal);
    const auto action = actions.get(number);
    if (!action) break;
    if (const auto own = as_set(signal, *action)) (void)replace(actions, number, *action, *own);
  }
}

uint64_t open_handler_mask(const arch::Regs& regs, const tracee::ProcessMemory& memory) {
  const unsigned signal = signal_of(regs);
  const VirtAddr given{regs.syscall_argument(1)};
  if (signal == 0 || signal == SIGTRAP || !given || !in_frame(given.value, regs)) return 0;
  const auto action = memory.read_value<KernelAction>(given);
  if (!action || !handles(*action) || !agent::blocks_all(action->mask)) return 0;
  const uint64_t mask = action->mask & ~agent::kTrapBit;
  return memory.write_value(given + offsetof(KernelAction, mask), mask) == 0 ? agent::bit_of_signal(signal)
                                                                             : 0;
}

uint64_t signal_that_is_set(const arch::Regs& regs) {
  const unsigned signal = signal_of(regs);
  return signal != 0 && regs.syscall_argument(1) != 0 ? agent::bit_of_signal(signal) : 0;
}

void close_told_mask(const arch::Regs& regs, const tracee::ProcessMemory& memory, uint64_t opened) {
  const unsigned signal = signal_of(regs);
  const VirtAddr told{regs.syscall_argument(2)};
  if (signal == 0 || regs.raw.rax != 0 || (opened & agent::bit_of_signal(signal)) == 0 || !told ||
      !in_frame(told.value, regs))
    return;
  const auto action = memory.read_value<KernelAction>(told);
  if (const auto own = action ? as_set(signal, *action) : std::nullopt) (void)memory.write_value(told, *own);
}

}  // namespace rtrace::mech
