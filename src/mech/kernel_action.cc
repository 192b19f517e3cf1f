#include "kernel_action.h"

#include <sys/syscall.h>

#include <span>

namespace rtrace::mech {

constexpr uint64_t kMaskSize = 8;  // sigsetsize of the rt_ system calls

KernelActions::KernelActions(const tracee::ProcessMemory& memory, tracee::RemoteCall& remote)
    : memory_(memory), remote_(remote), where_(remote.scratch(2 * sizeof(KernelAction))) {}

std::optional<KernelAction> KernelActions::exchange(int signal, const KernelAction& action) {
  if (!where_ || memory_.write(*where_, std::as_bytes(std::span(&action, 1))) != 0) return std::nullopt;
  return ask(signal, where_->value);
}

std::optional<KernelAction> KernelActions::ask(int signal, uint64_t action) {
  const VirtAddr before = where_.value_or(VirtAddr{}) + sizeof(KernelAction);
  if (!where_ ||
      remote_.call(SYS_rt_sigaction, {static_cast<uint64_t>(signal), action, before.value, kMaskSize}) != 0)
    return std::nullopt;
  return memory_.read_value<KernelAction>(before);
}

}  // namespace rtrace::mech
