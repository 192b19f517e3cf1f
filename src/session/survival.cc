#include "survival.h"

#include "reporter.h"
#include "rtrace/base/log.h"
#include "rtrace/mech/bridge.h"
#include "rtrace/mech/handler_masks.h"
#include "rtrace/tracee/proc_fs.h"

namespace rtrace::session {
namespace {

constexpr uint64_t kPause = 10'000'000;  // ns

mech::BridgeSite site_of(const tracee::ProcessMemory& memory, pid_t stopped, const mech::Foothold& foothold) {
  return {stopped, memory, foothold.gadget(), foothold.frame_area(), foothold.bridge(), foothold.restorer()};
}

}  // namespace

void Survival::raise(pid_t stopped, mech::AddressSpace& space) {
  const mech::Foothold& foothold = space.foothold();
  tracee::RemoteCall remote(stopped, space.memory(), foothold.gadget(), foothold.frame_area());
  raise(stopped, space, remote);
}

void Survival::raise(pid_t stopped, mech::AddressSpace& space, tracee::RemoteCall& remote) {
  risk_ = mech::raise_bridge(site_of(space.memory(), stopped, space.foothold()), remote);
  state_ = risk_.empty() ? State::standing : State::absent;
  space.handler_stands(stands());
  RTRACE_LOG(session, 1, "bridge of {}: {}", space.pid(), risk_.empty() ? "stands" : risk_);
  if (stands() && !std::exchange(opened_, true)) open_handlers(stopped, space, remote);
}

void Survival::open_handlers(pid_t stopped, mech::AddressSpace& space, tracee::RemoteCall& remote) {
  const auto status = remote.status() ? remote.status() : tracee::status_of_stopped(stopped);
  const uint64_t opened = mech::open_handler_masks(space.memory(), remote, status ? status->caught : 0);
  if (opened != 0) space.foothold().note_open_handlers(space.memory(), opened);
}

bool Survival::lower(pid_t stopped, mech::AddressSpace& space) {
  if (!lower_in(space.memory(), stopped, space)) return false;
  state_ = State::none;
  space.handler_stands(false);
  return true;
}

bool Survival::lower_in(const tracee::ProcessMemory& child, pid_t stopped, const mech::AddressSpace& space) {
  // No handler leads to a blob that is not there.
  if (!space.foothold().stands_in(child)) return true;
  return mech::lower_bridge(site_of(child, stopped, space.foothold())) != mech::Lowered::failed;
}

void Survival::close_handlers(const tracee::ProcessMemory& memory, pid_t stopped,
                              const mech::AddressSpace& space) {
  const mech::Foothold& foothold = space.foothold();
  if (foothold.stands_in(memory))
    mech::close_handler_masks(site_of(memory, stopped, foothold), foothold.open_handlers(memory));
}

bool Survival::leave(pid_t stopped, mech::AddressSpace& space) {
  const bool lowered = lower(stopped, space);
  if (lowered) close_handlers(space.memory(), stopped, space);
  if (lowered) opened_ = false;
  return lowered;
}

bool Survival::leave_in(const tracee::ProcessMemory& child, pid_t stopped, const mech::AddressSpace& space) {
  const bool lowered = lower_in(child, stopped, space);
  if (lowered) close_handlers(child, stopped, space);
  return lowered;
}

void Survival::decline(const std::string& reason) {
  if (state_ != State::none) return;
  state_ = State::absent;
  risk_ = reason;
}

void Survival::reset_by_kernel(mech::AddressSpace& space) {
  if (state_ != State::standing) return;
  space.handler_stands(false);
  state_ = State::lost;
  lost_since_ = 0;
}

bool Survival::wants_raising() const {
  return (state_ == State::lost || state_ == State::due) && timestamp().monotonic - lost_since_ > kPause;
}

void Survival::program_set(bool standard, mech::AddressSpace& space) {
  space.handler_stands(false);
  space.rest_mask_syscalls(!standard);  // nothing is carried out then, and the program's handler would go
  if (!standard) {
    state_ = State::absent;
    risk_ = "it has set an action for SIGTRAP of its own";
    return;
  }
  state_ = State::due;
  lost_since_ = timestamp().monotonic;
}

}  // namespace rtrace::session
