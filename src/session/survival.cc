#include "survival.h"

#include <algorithm>
#include <csignal>

#include "reporter.h"
#include "rtrace/base/log.h"
#include "rtrace/mech/bridge.h"
#include "rtrace/mech/handler_masks.h"
#include "rtrace/tracee/proc_fs.h"

namespace rtrace::session {
namespace {

constexpr uint64_t kPause = 10'000'000;  // ns
constexpr uint64_t kTrap = tracee::signal_bit(SIGTRAP);

mech::BridgeSite site_of(const tracee::ProcessMemory& memory, pid_t stopped, const mech::Foothold& foothold) {
  return {stopped,           memory,
          foothold.gadget(), foothold.frame_area(),
          foothold.bridge(), foothold.restorer(),
          foothold.screen(), foothold.own_handler()};
}

}  // namespace

void Survival::raise(pid_t stopped, mech::AddressSpace& space) {
  const mech::Foothold& foothold = space.foothold();
  tracee::RemoteCall remote(stopped, space.memory(), foothold.gadget(), foothold.frame_area());
  raise(stopped, space, remote);
}

void Survival::raise(pid_t stopped, mech::AddressSpace& space, tracee::RemoteCall& remote) {
  take(mech::raise_bridge(site_of(space.memory(), stopped, space.foothold()), remote), space);
}

void Survival::screen(pid_t stopped, mech::AddressSpace& space) {
  take(mech::raise_screen(site_of(space.memory(), stopped, space.foothold())), space);
}

void Survival::take(const mech::Raised& raised, mech::AddressSpace& space) {
  constexpr State kStates[] = {State::standing, State::screening, State::due, State::absent};
  state_ = kStates[static_cast<size_t>(raised.bridge)];
  has_screened_ |= screens();
  raises_ += stands() || screens();
  risk_ = raised.reason;
  lost_since_ = raised_at_ = timestamp().monotonic;
  space.handler_stands(stands(), screens());
  RTRACE_LOG(session, 1, "bridge of {}: {}{}", space.pid(), risk_.empty() ? "stands" : risk_,
             screens() ? " in front of its own handler" : "");
}

void Survival::raise_in_borrower(pid_t stopped, const mech::AddressSpace& space) {
  const mech::Raised raised = mech::raise_bridge(site_of(space.memory(), stopped, space.foothold()));
  RTRACE_LOG(session, 1, "bridge of {}, in the memory of {}: {}", stopped, space.pid(),
             raised.reason.empty() ? "stands" : raised.reason);
}

bool Survival::lower_in_borrower(pid_t stopped, const mech::AddressSpace& space) {
  return lower_in(space.memory(), stopped, space);
}

bool Survival::raised_lately() const {
  constexpr uint64_t kLately = 2'000'000'000;  // ns: far longer than a clone takes
  return stands() && timestamp().monotonic - raised_at_ < kLately;
}

void Survival::open_handlers(pid_t stopped, mech::AddressSpace& space) {
  const auto status = tracee::status_of_stopped(stopped);
  const mech::Foothold& foothold = space.foothold();
  const uint64_t others = foothold.open_handlers(space.memory());
  mech::open_handler_masks(
      site_of(space.memory(), stopped, foothold), status ? status->caught : 0,
      [&](uint64_t opened) { foothold.note_open_handlers(space.memory(), others | opened); });
}

void Survival::close_handlers(pid_t stopped, mech::AddressSpace& space) {
  const mech::Foothold& foothold = space.foothold();
  const uint64_t opened = foothold.open_handlers(space.memory());
  closed_ = true;
  mech::close_handler_masks(site_of(space.memory(), stopped, foothold), opened & ~kTrap);
  foothold.note_open_handlers(space.memory(), opened & kTrap);
}

bool Survival::are_handlers_open(const mech::AddressSpace& space) {
  return (space.foothold().open_handlers(space.memory()) & ~kTrap) != 0;
}

bool Survival::blocks_all_in_handlers(pid_t stopped, const mech::AddressSpace& space) {
  const auto status = tracee::status_of_stopped(stopped);
  return status && mech::has_handler_that_blocks_all(site_of(space.memory(), stopped, space.foothold()),
                                                     status->caught);
}

bool Survival::lower(pid_t stopped, mech::AddressSpace& space) {
  if (!lower_in(space.memory(), stopped, space)) return false;
  state_ = screens() ? State::due : State::none;
  lost_since_ = timestamp().monotonic;
  space.handler_stands(false);
  return true;
}

bool Survival::lower_in(const tracee::ProcessMemory& child, pid_t stopped, const mech::AddressSpace& space) {
  // No handler leads to a blob that is not there.
  if (!space.foothold().stands_in(child)) return true;
  return mech::lower_bridge(site_of(child, stopped, space.foothold())) != mech::Lowered::failed;
}

bool Survival::leave(pid_t stopped, mech::AddressSpace& space) {
  if (!lower(stopped, space)) return false;
  const mech::Foothold& foothold = space.foothold();
  const uint64_t opened = foothold.open_handlers(space.memory());
  mech::close_handler_masks(site_of(space.memory(), stopped, foothold), opened & kTrap);
  foothold.note_open_handlers(space.memory(), opened & ~kTrap);
  return true;
}

bool Survival::leave_in(const tracee::ProcessMemory& child, pid_t stopped, const mech::AddressSpace& space) {
  if (!lower_in(child, stopped, space)) return false;
  const mech::Foothold& foothold = space.foothold();
  if (foothold.stands_in(child))
    mech::close_handler_masks(site_of(child, stopped, foothold), foothold.open_handlers(child));
  return true;
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

bool Survival::is_to_be_looked_for(uint64_t now, bool blocks_all) {
  constexpr unsigned kHits = 1000;                // a look takes as long as one of them
  constexpr uint64_t kLookPause = 2'000'000'000;  // ns
  if (state_ != State::standing) return false;
  ++hits_;
  if (!blocks_all && hits_ < kHits && now - looked_for_ < kLookPause) return false;
  looked_for_ = now;
  hits_ = 0;
  return true;
}

bool Survival::wants_raising() const {
  return (state_ == State::lost || state_ == State::due) && timestamp().monotonic - lost_since_ > kPause;
}

std::string risk_of_own_action(pid_t pid, const std::string& name) {
  return fmt::format(
      "process {} ({}) has set an action for SIGTRAP of its own: SIGKILL of rtrace would kill it at its next "
      "probe, and others of that name that do so",
      pid, name);
}

void Survival::program_set(TrapDisposition::Kind kind, mech::AddressSpace& space) {
  const uint64_t now = timestamp().monotonic;
  space.handler_stands(false);
  // Nothing is carried out for an own one, and the program's handler would go.
  space.rest_mask_syscalls(kind != TrapDisposition::Kind::standard);
  const mech::Foothold& foothold = space.foothold();
  if (kind != TrapDisposition::Kind::caught && foothold.exists())
    (void)space.memory().write_value(foothold.own_handler(), agent::Blob::OwnHandler{});
  if (kind == TrapDisposition::Kind::ignored) {
    state_ = State::absent;
    risk_ = "it has set an action for SIGTRAP of its own";
    return;
  }
  state_ = State::due;
  // What is set in its place is known once the call is over; at the next hit, unless it changes all the time.
  constexpr unsigned kInARow = 16;  // each makes the next wait for one pause more
  const uint64_t even_at = std::max(even_at_, now) + kPause;
  const bool seldom = even_at - now <= kInARow * kPause;
  if (seldom) even_at_ = even_at;
  lost_since_ = seldom ? 0 : now;
}

}  // namespace rtrace::session
