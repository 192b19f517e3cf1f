#include "rtrace/mech/bridge.h"

#include <csignal>

#include "kernel_action.h"
#include "rtrace/tracee/proc_fs.h"
#include "rtrace/tracee/remote_call.h"

namespace rtrace::mech {
namespace {

constexpr uint64_t kRestorer = 0x04000000;  // SA_RESTORER, of no user header

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
  KernelActions actions(at.memory, remote);
  const auto now = at_once ? actions.exchange(SIGTRAP, ours) : actions.get(SIGTRAP);
  if (!now) return kNoCall;
  if (now->handler == at.handler.value) return {};
  if (now->is_default()) return at_once || actions.exchange(SIGTRAP, ours) ? std::string() : kNoCall;
  if (at_once) (void)actions.exchange(SIGTRAP, *now);  // set since we looked
  return now->ignores() ? "it ignores SIGTRAP" : "it has a SIGTRAP handler of its own";
}

Lowered lower_bridge(const BridgeSite& at) {
  tracee::RemoteCall remote(at.stopped, at.memory, at.gadget, at.frame_area);
  KernelActions actions(at.memory, remote);
  // Asked for first: were we to die between two exchanges, a handler of the program's own would be lost.
  const auto before = actions.get(SIGTRAP);
  if (!before) return Lowered::failed;
  // When an int3 hits a thread that blocks SIGTRAP the kernel resets the handler alone (kernel/signal.c,
  // force_sig_info_to_task): flags, mask and restorer stay ours.
  const bool reset = before->is_default() && before->restorer == at.restorer.value;
  if (!reset && before->handler != at.handler.value) return Lowered::was_not_ours;
  const auto last = actions.exchange(SIGTRAP, {});
  if (!last) return Lowered::failed;
  // Another thread may have set one since we looked.
  if (last->handler == before->handler || last->is_default()) return Lowered::yes;
  (void)actions.exchange(SIGTRAP, *last);
  return Lowered::was_not_ours;
}

}  // namespace rtrace::mech
