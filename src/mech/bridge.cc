#include "rtrace/mech/bridge.h"

#include <sys/syscall.h>

#include <array>
#include <csignal>
#include <optional>

#include "rtrace/tracee/proc_fs.h"
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
  TrapAction(const BridgeSite& at, tracee::RemoteCall& remote) : memory_(at.memory), remote_(remote) {
    where_ = remote_.scratch(2 * sizeof(KernelAction));
  }
  std::optional<KernelAction> get() { return ask(0); }
  // Sets one and answers what was there before: the kernel does both in one step, so that nothing that other
  // threads do can come between.
  std::optional<KernelAction> exchange(const KernelAction& action) {
    if (!where_ || memory_.write(*where_, std::as_bytes(std::span(&action, 1))) != 0) return std::nullopt;
    return ask(where_->value);
  }

 private:
  std::optional<KernelAction> ask(uint64_t action) {
    const VirtAddr before = where_.value_or(VirtAddr{}) + sizeof(KernelAction);
    if (!where_ || remote_.call(SYS_rt_sigaction, {SIGTRAP, action, before.value, kMaskSize}) != 0)
      return std::nullopt;
    return memory_.read_value<KernelAction>(before);
  }

  const tracee::ProcessMemory& memory_;
  tracee::RemoteCall& remote_;
  std::optional<VirtAddr> where_;
};

bool is_default(const KernelAction& action) {
  return action.handler == reinterpret_cast<uint64_t>(SIG_DFL);
}

// An action that is the program's own must not be away even for a moment: it is asked for first where there
// seems to be one.
bool seems_default(pid_t tid, const tracee::RemoteCall& remote) {
  const auto status = remote.status() ? remote.status() : tracee::status_of_stopped(tid);
  return status && ((status->caught | status->ignored) & tracee::signal_bit(SIGTRAP)) == 0;
}

}  // namespace

std::string raise_bridge(const BridgeSite& at) {
  tracee::RemoteCall remote(at.stopped, at.memory, at.gadget, at.frame_area);
  return raise_bridge(at, remote);
}

std::string raise_bridge(const BridgeSite& at, tracee::RemoteCall& remote) {
  constexpr const char* kNoCall = "the thread could not make the system call";
  // On the alternate stack where the thread has one: a coroutine's own may be too small for a signal frame.
  const KernelAction ours{at.handler.value, SA_SIGINFO | SA_ONSTACK | kRestorer, at.restorer.value,
                          ~uint64_t{0}};
  const bool at_once = seems_default(at.stopped, remote);
  TrapAction action(at, remote);
  const auto now = at_once ? action.exchange(ours) : action.get();
  if (!now) return kNoCall;
  if (now->handler == at.handler.value) return {};
  if (is_default(*now)) return at_once || action.exchange(ours) ? std::string() : kNoCall;
  if (at_once) (void)action.exchange(*now);  // set since we looked
  const bool ignored = now->handler == reinterpret_cast<uint64_t>(SIG_IGN);
  return ignored ? "it ignores SIGTRAP" : "it has a SIGTRAP handler of its own";
}

Lowered lower_bridge(const BridgeSite& at) {
  tracee::RemoteCall remote(at.stopped, at.memory, at.gadget, at.frame_area);
  TrapAction action(at, remote);
  // Asked for first: were we to die between two exchanges, a handler of the program's own would be lost.
  const auto before = action.get();
  if (!before) return Lowered::failed;
  // When an int3 hits a thread that blocks SIGTRAP the kernel resets the handler alone (kernel/signal.c,
  // force_sig_info_to_task): flags, mask and restorer stay ours.
  const bool reset = is_default(*before) && before->restorer == at.restorer.value;
  if (!reset && before->handler != at.handler.value) return Lowered::was_not_ours;
  const auto last = action.exchange({});
  if (!last) return Lowered::failed;
  // Another thread may have set one since we looked.
  if (last->handler == before->handler || is_default(*last)) return Lowered::yes;
  (void)action.exchange(*last);
  return Lowered::was_not_ours;
}

}  // namespace rtrace::mech
