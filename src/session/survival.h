// What a process would go through if rtrace were killed: the state of the bridging handler in it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>

#include "rtrace/mech/address_space.h"
#include "rtrace/mech/bridge.h"
#include "sigtrap.h"

namespace rtrace::session {

class Survival {
 public:
  // Nothing is mapped into the process yet, and no int3 stands in it.
  Survival() = default;

  // For the default action.
  bool stands() const { return state_ == State::standing; }
  // In front of the program's own handler.
  bool screens() const { return state_ == State::screening; }
  // It does, or did: a thread may still be inside of it.
  bool has_screened() const { return has_screened_; }
  bool is_due() const { return state_ == State::due; }
  // Once, in all.
  bool raised_once() const { return raises_ == 1; }
  // Something of our action for the default may be in the process: the handler, or what the kernel leaves
  // when it resets one.
  bool leaves_a_trace() const { return state_ == State::standing || state_ == State::lost; }
  // Nor will it be, unless the program sets the default action.
  bool is_without_default() const { return state_ == State::absent || screens(); }
  // Why the next hit after our death would kill the process; empty where it would not.
  const std::string& risk() const { return risk_; }

  // Each with a task in a consumed stop, fit for remote calls, and a space that has its foothold.
  void raise(pid_t stopped, mech::AddressSpace& space);
  // In the course of calls that are being made anyway.
  void raise(pid_t stopped, mech::AddressSpace& space, tracee::RemoteCall& remote);
  // In a task of another process in the same memory, whose actions were copied before the handler stood.
  static void raise_in_borrower(pid_t stopped, const mech::AddressSpace& space);
  // False where no system call could be made.
  static bool lower_in_borrower(pid_t stopped, const mech::AddressSpace& space);
  // So lately that there may be one.
  bool raised_lately() const;
  // False where no system call could be made: then the handler may stand, and our pages must stay.
  bool lower(pid_t stopped, mech::AddressSpace& space);
  // For good: SIGTRAP is ignored again where it is so but for us. No thread has met an int3 that it is still
  // to stop for.
  bool leave(pid_t stopped, mech::AddressSpace& space);
  // The same in a fork child's memory, whose handlers block all signals again that did.
  static bool leave_in(const tracee::ProcessMemory& child, pid_t stopped, const mech::AddressSpace& space);

  // The program's handlers that block all signals run with SIGTRAP open from now on, or do not any more, nor
  // those that it sets later. The process's threads as for mech::open_handler_masks().
  void open_handlers(pid_t stopped, mech::AddressSpace& space);
  void close_handlers(pid_t stopped, mech::AddressSpace& space);
  // Whether one stands so, SIGTRAP's own aside.
  static bool are_handlers_open(const mech::AddressSpace& space);
  // Whether one of the program's blocks all signals. One thread stands, as for raise().
  static bool blocks_all_in_handlers(pid_t stopped, const mech::AddressSpace& space);
  bool opens_handlers() const { return leaves_a_trace() && !closed_; }

  // Nothing may ever be mapped there.
  void decline(const std::string& reason);
  // The kernel has reset the action: a thread that blocks SIGTRAP has met an int3 (kernel/signal.c,
  // force_sig_info_to_task). It is raised again before that thread goes on.
  void reset_by_kernel(mech::AddressSpace& space);
  // At each hit, monotonic ns. True now and then while it ought to stand: threads block SIGTRAP unseen, too.
  // Always where one was seen to block all: in a process that is attached to that may have ended, and begun
  // again, unseen.
  bool is_to_be_looked_for(uint64_t now, bool blocks_all);
  // True once: that is to be said.
  bool tells_of_blocking() { return !std::exchange(told_, true); }
  // Time to raise it; where the program has changed the action, not before its call is over.
  bool wants_raising() const;
  // As raise() does, in front of the program's own handler, which is known; where what it asks for is
  // answered. It stays to be done where there is none just now.
  void screen(pid_t stopped, mech::AddressSpace& space);
  // The program has set an action.
  void program_set(TrapDisposition::Kind kind, mech::AddressSpace& space);

 private:
  void take(const mech::Raised& raised, mech::AddressSpace& space);
  static bool lower_in(const tracee::ProcessMemory& memory, pid_t stopped, const mech::AddressSpace& space);

  // `due`: the program sets an action itself, and nothing of ours is there until that call is over; or its
  // own handler is to take a signal.
  enum class State : uint8_t { none, standing, screening, lost, due, absent };
  State state_ = State::none;
  bool told_ = false;
  bool has_screened_ = false;
  bool closed_ = false;      // handlers
  uint64_t lost_since_ = 0;  // monotonic ns
  uint64_t raised_at_ = 0;   // likewise
  uint64_t even_at_ = 0;     // likewise: from then on its actions count as seldom, whatever it set before
  uint64_t looked_for_ = 0;  // likewise
  unsigned hits_ = 0;        // since then
  unsigned raises_ = 0;
  std::string risk_;
};

// What is told where a program has set such an action for SIGTRAP while it is traced that no handler of ours
// can stand.
std::string risk_of_own_action(pid_t pid, const std::string& name);

}  // namespace rtrace::session
