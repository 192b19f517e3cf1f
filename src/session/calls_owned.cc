// Whose call it is that a thread makes at a site.
#include <algorithm>

#include "calls.h"
#include "image.h"
#include "rtrace/plan/name_rank.h"

namespace rtrace::session {

// Of a probe at the callee's entry that serves one caller.
CallOf CallTracer::call_of(const Task& task, VirtAddr site, const Owner& owner,
                           VirtAddr return_address) const {
  const Probe& probe = services_.registry.at(owner.probe);
  const auto label_of = [&](event::ProbeId id) -> const decode::ProbeLabel& {
    return services_.registry.at(id).label;
  };
  if (task.tail_jump && task.tail_jump->caller == owner.caller && task.tail_jump->sp == regs_.sp())
    return label_of(task.tail_jump->probe).name == probe.label.name ? CallOf::its : CallOf::another;
  // A call that came through the caller's stub has been seen there, by whatever name.
  const event::Frame* top = task.stack.top();
  if (top != nullptr && top->identity == event::FrameIdentity::at_entry(regs_, return_address) &&
      top->site != site) {
    const decode::ProbeLabel& seen = label_of(top->probe);
    if (seen.kind == decode::ProbeLabel::Kind::call_site && seen.caller == probe.label.caller)
      return CallOf::another;
  }
  return task.process->image->call_of(probe.label, owner.caller, return_address);
}

// Where one function has several names a call is of one of them. Where its code does not tell of which, as
// through a register, it is shown by the first.
bool CallTracer::is_owners(const Task& task, VirtAddr site, std::span<const Owner> owners, const Owner& owner,
                           VirtAddr return_address) const {
  const Probe& probe = services_.registry.at(owner.probe);
  if (!probe.only_from_caller) return true;
  const CallOf call = call_of(task, site, owner, return_address);
  if (call != CallOf::unnamed) return call == CallOf::its;
  const auto rank = [](const Probe& one) { return plan::rank_of(one.label.name, false, false, true); };
  return std::ranges::none_of(owners, [&](const Owner& other) {
    const Probe& another = services_.registry.at(other.probe);
    return other.caller == owner.caller && another.only_from_caller && !another.tail_jump &&
           rank(another) < rank(probe);
  });
}

bool CallTracer::is_turn_of_loop(const Task& task, const Probe& probe, VirtAddr site,
                                 VirtAddr return_address) const {
  const event::Frame* top = task.stack.top();
  return top != nullptr && top->probe == probe.id &&
         top->identity == event::FrameIdentity::at_entry(regs_, return_address) &&
         task.process->image->branches_to_entry(site);
}

}  // namespace rtrace::session
