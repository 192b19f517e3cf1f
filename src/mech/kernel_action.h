// What a process does about a signal, as the kernel has it, through remote calls of a stopped task.
#pragma once

#include <csignal>
#include <cstdint>
#include <optional>

#include "rtrace/base/address.h"
#include "rtrace/tracee/process_memory.h"
#include "rtrace/tracee/remote_call.h"

namespace rtrace::mech {

// The kernel's struct sigaction (include/linux/signal_types.h).
struct KernelAction {
  uint64_t handler, flags, restorer, mask;

  bool operator==(const KernelAction&) const = default;
  bool is_default() const { return handler == reinterpret_cast<uint64_t>(SIG_DFL); }
  bool ignores() const { return handler == reinterpret_cast<uint64_t>(SIG_IGN); }
};

// The process's actions. The remote call stays prepared for others.
class KernelActions {
 public:
  KernelActions(const tracee::ProcessMemory& memory, tracee::RemoteCall& remote);

  std::optional<KernelAction> get(int signal) { return ask(signal, 0); }
  // Sets one and answers what was there before: the kernel does both in one step, so that nothing that other
  // threads do can come between.
  std::optional<KernelAction> exchange(int signal, const KernelAction& action);

 private:
  std::optional<KernelAction> ask(int signal, uint64_t action);

  const tracee::ProcessMemory& memory_;
  tracee::RemoteCall& remote_;
  std::optional<VirtAddr> where_;
};

}  // namespace rtrace::mech
