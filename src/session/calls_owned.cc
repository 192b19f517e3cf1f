// Whose call it is that a thread makes at a site.
#include <algorithm>

#include "called_function.h"
#include "calls.h"
#include "image.h"
#include "rtrace/arch/register_jumps.h"
#include "rtrace/plan/name_rank.h"

namespace rtrace::session {

// Of a probe at the callee's entry that serves one caller.
CallOf CallTracer::call_of(const Task& task, VirtAddr site, const Owner& owner,
                           VirtAddr return_address) const {
  const Probe& probe = services_.registry.at(owner.probe);
  const auto label_of = [&](event::ProbeId id) -> const decode::ProbeLabel& {
    return services_.registry.at(id).label;
  };
  if (task.tail_jump && task.tail_jump->sp == regs_.sp()) {
    const bool its = task.tail_jump->caller == owner.caller;
    const bool leads_here = label_of(task.tail_jump->probe).name == probe.label.name;
    if (its || leads_here) return its && leads_here ? CallOf::its : CallOf::another;
  }
  // A call that came through a stub has been seen there, by whatever name, whoever jumped to it.
  const event::Frame* top = task.stack.top();
  if (top != nullptr && top->identity == event::FrameIdentity::at_entry(regs_, return_address) &&
      top->site != site) {
    if (label_of(top->probe).kind == decode::ProbeLabel::Kind::call_site) return CallOf::another;
  }
  const CallOf call = task.process->image->call_of(probe.label, owner.caller, return_address);
  return call == CallOf::its ? call : by_what_was_called(task, site, owner, return_address, call);
}

// Where another function was called, the thread has come from there, by tail calls.
CallOf CallTracer::by_what_was_called(const Task& task, VirtAddr site, const Owner& owner,
                                      VirtAddr return_address, CallOf else_it_is) const {
  const Image& image = *task.process->image;
  const auto called = called_function(image, return_address, regs_);
  if (!called || *called == site || is_stub(image, *called)) return else_it_is;
  const auto is_callers = [&](VirtAddr address) {
    const elf::LoadedObject* object = image.code_at(address);
    return object != nullptr && object->id == owner.caller;
  };
  if (else_it_is == CallOf::unnamed) return is_callers(*called) ? CallOf::unnamed : CallOf::another;
  const bool may_be_its = services_.registry.at(owner.probe).way_unknown && !is_callers(return_address);
  return may_be_its && is_callers(*called) ? CallOf::unnamed : CallOf::another;
}

// Of what a wrapped function calls as the last thing it does: where the wrapper returns to.
VirtAddr CallTracer::callers_return(const Task& task, VirtAddr return_address) const {
  const auto& image = task.process->image;
  const mech::Trampolines* trampolines = image != nullptr ? image->trampolines() : nullptr;
  if (trampolines == nullptr || !trampolines->begun()) return return_address;
  for (size_t below = 0; trampolines->returns_to_wrapper(return_address); ++below) {
    const event::Frame* outer = task.stack.top(below);
    if (outer == nullptr) break;
    return_address = outer->identity.return_address;
  }
  return return_address;
}

// A `jmp *%reg` may lead elsewhere.
bool CallTracer::may_jump_to(Image& image, VirtAddr jump, const Owner& owner) const {
  const elf::LoadedObject* object = image.code_at(jump);
  if (object == nullptr) return false;
  const auto insn = object->file->bytes_at(object->in_file(jump), arch::kMaxInsn);
  const auto number = arch::branch_register(insn);
  if (!number) return true;
  const auto* entry = image.space().find({arch::register_of(regs_, *number)});
  return entry != nullptr && std::ranges::any_of(entry->probes, [&](const Owner& other) {
           const Probe& probe = services_.registry.at(other.probe);
           return other.caller == owner.caller && probe.only_from_caller &&
                  probe.label.name == services_.registry.at(owner.probe).label.name;
         });
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
