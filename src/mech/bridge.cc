#include "rtrace/mech/bridge.h"

#include <csignal>
#include <cstddef>

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

const Raised kDue{Bridge::due, "it has a SIGTRAP handler of its own"};
constexpr const char* kNoCall = "the thread could not make the system call";

Raised absent(const char* reason) {
  return {Bridge::absent, reason};
}

bool note_own(const BridgeSite& at, const KernelAction& own) {
  return at.memory.write_value(at.own_handler, agent::Blob::OwnHandler{own.handler, own.flags}) == 0;
}

// What the kernel does for the program's handler stays as it is: the alternate stack, the mask, restarts. But
// ours is told what the signal is for, which the kernel writes where that is asked for (arch/x86/kernel,
// x64_setup_rt_frame); the rest of the frame is the same.
Raised put_in_front(const BridgeSite& at, KernelActions& actions, const KernelAction& own) {
  if ((own.flags & SA_RESETHAND) != 0) return absent("it has a SIGTRAP handler that serves once");
  if (!note_own(at, own)) return absent("our pages cannot be written");
  KernelAction ours = own;
  ours.handler = at.screen.value;
  ours.flags |= SA_SIGINFO;
  const auto last = actions.exchange(SIGTRAP, ours);
  if (!last) return absent(kNoCall);
  if (*last == own) return {Bridge::screens, {}};
  (void)actions.exchange(SIGTRAP, *last);  // set since we looked, or reset by the kernel
  return kDue;
}

// The kernel has the rest of it.
Lowered take_from_front(const BridgeSite& at, KernelActions& actions, const KernelAction& before) {
  const auto noted = at.memory.read_value<agent::Blob::OwnHandler>(at.own_handler);
  if (!noted || noted->address == 0) return Lowered::failed;  // or it would be called
  KernelAction own = before;
  own.handler = noted->address;
  own.flags = noted->flags;
  const auto last = actions.exchange(SIGTRAP, own);
  if (!last) return Lowered::failed;
  if (*last == before || last->is_default()) return Lowered::yes;
  (void)actions.exchange(SIGTRAP, *last);  // another thread has set one since we looked
  return Lowered::was_not_ours;
}

}  // namespace

BridgeSite bridge_site(pid_t stopped, const tracee::ProcessMemory& memory, VirtAddr blob,
                       const agent::Blob& head) {
  return {stopped,
          memory,
          blob + head.gadget,
          {VirtAddr{head.frame_begin}, VirtAddr{head.frame_end}},
          blob + head.bridge,
          blob + head.restorer,
          blob + head.screen,
          blob + offsetof(agent::Blob, own_handler)};
}

Raised raise_bridge(const BridgeSite& at) {
  tracee::RemoteCall remote(at.stopped, at.memory, at.gadget, at.frame_area);
  return raise_bridge(at, remote);
}

Raised raise_bridge(const BridgeSite& at, tracee::RemoteCall& remote) {
  // On the alternate stack where the thread has one: a coroutine's own may be too small for a signal frame.
  const KernelAction ours{at.handler.value, SA_SIGINFO | SA_ONSTACK | kRestorer, at.restorer.value,
                          ~uint64_t{0}};
  const bool at_once = seems_default(at.stopped, remote);
  KernelActions actions(at.memory, remote);
  const auto now = at_once ? actions.exchange(SIGTRAP, ours) : actions.get(SIGTRAP);
  if (!now) return absent(kNoCall);
  if (now->handler == at.handler.value) return {Bridge::stands, {}};
  if (now->is_default())
    return at_once || actions.exchange(SIGTRAP, ours) ? Raised{Bridge::stands, {}} : absent(kNoCall);
  if (at_once) (void)actions.exchange(SIGTRAP, *now);  // set since we looked
  if (now->ignores()) return absent("it ignores SIGTRAP");
  if (now->handler == at.screen.value) return {Bridge::screens, {}};
  (void)note_own(at, *now);  // whoever repairs leaves it its steps
  return kDue;
}

Raised raise_screen(const BridgeSite& at) {
  tracee::RemoteCall remote(at.stopped, at.memory, at.gadget, at.frame_area);
  KernelActions actions(at.memory, remote);
  const auto now = actions.get(SIGTRAP);
  if (!now) return absent(kNoCall);
  if (now->is_default() || now->ignores() || now->handler == at.handler.value) return kDue;
  if (now->handler == at.screen.value) return {Bridge::screens, {}};
  return put_in_front(at, actions, *now);
}

Lowered lower_bridge(const BridgeSite& at) {
  tracee::RemoteCall remote(at.stopped, at.memory, at.gadget, at.frame_area);
  KernelActions actions(at.memory, remote);
  // Asked for first: were we to die between two exchanges, a handler of the program's own would be lost.
  const auto before = actions.get(SIGTRAP);
  if (!before) return Lowered::failed;
  if (before->handler == at.screen.value) return take_from_front(at, actions, *before);
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
