#include "rtrace/mech/bridge.h"

#include <sys/syscall.h>

#include <array>
#include <csignal>
#include <optional>

#include "rtrace/tracee/remote_call.h"

namespace rtrace::mech {
namespace {

// The kernel's struct sigaction (include/linux/signal_types.h).
struct KernelAction {
  uint64_t handler, flags, restorer, mask;
};
constexpr uint64_t kMaskSize = 8;           // sigsetsize of the rt_ system calls
constexpr uint64_t kRestorer = 0x04000000;  // SA_RESTORER, of no user header

// The process's action, through a remote call that stays prepared for another.
class TrapAction {
 public:
  explicit TrapAction(const BridgeSite& at)
      : memory_(at.memory), remote_(at.stopped, at.memory, at.gadget, at.frame_area) {
    where_ = remote_.scratch(sizeof(KernelAction));
  }
  std::optional<KernelAction> get() {
    if (!where_ || remote_.call(SYS_rt_sigaction, {SIGTRAP, 0, where_->value, kMaskSize}) != 0)
      return std::nullopt;
    return memory_.read_value<KernelAction>(*where_);
  }
  bool set(const KernelAction& action) {
    return where_ && memory_.write(*where_, std::as_bytes(std::span(&action, 1))) == 0 &&
           remote_.call(SYS_rt_sigaction, {SIGTRAP, where_->value, 0, kMaskSize}) == 0;
  }

 private:
  const tracee::ProcessMemory& memory_;
  tracee::RemoteCall remote_;
  std::optional<VirtAddr> where_;
};

}  // namespace

std::string raise_bridge(const BridgeSite& at) {
  TrapAction action(at);
  const auto now = action.get();
  if (!now) return "the thread could not make the system call";
  if (now->handler == at.handler.value) return {};
  if (now->handler == reinterpret_cast<uint64_t>(SIG_IGN)) return "it ignores SIGTRAP";
  if (now->handler != reinterpret_cast<uint64_t>(SIG_DFL)) return "it has a SIGTRAP handler of its own";
  // On the alternate stack where the thread has one: a coroutine's own may be too small for a signal frame.
  const KernelAction ours{at.handler.value, SA_SIGINFO | SA_ONSTACK | kRestorer, at.restorer.value,
                          ~uint64_t{0}};
  return action.set(ours) ? std::string() : "the thread could not make the system call";
}

Lowered lower_bridge(const BridgeSite& at) {
  TrapAction action(at);
  const auto now = action.get();
  if (!now) return Lowered::failed;
  // When an int3 hits a thread that blocks SIGTRAP the kernel resets the handler alone (kernel/signal.c,
  // force_sig_info_to_task): flags, mask and restorer stay ours.
  const bool reset =
      now->handler == reinterpret_cast<uint64_t>(SIG_DFL) && now->restorer == at.restorer.value;
  if (!reset && now->handler != at.handler.value) return Lowered::was_not_ours;
  return action.set({}) ? Lowered::yes : Lowered::failed;
}

}  // namespace rtrace::mech
