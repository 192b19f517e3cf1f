// Calls through GOT slots without a stub (-fno-plt): one wrapper for each slot takes the place of the
// breakpoints at the function's entry and at the jumps that tail calls are.
#include <algorithm>
#include <map>
#include <set>

#include "image.h"
#include "rtrace/elf/elf_file.h"
#include "wrapper_rules.h"

namespace rtrace::session {
namespace {

// The pauses between the tries grow: seconds in all, which no relocation takes.
constexpr unsigned kMostTries = 10;
constexpr std::string_view kAddressTaken =
    "its address is taken, too: its GOT slot is not only called through, or it stands in data";

}  // namespace

// Where one probe of a slot is met often, the others become part of the same wrapper.
void Image::spread_heat(const plan::Plan& plan, std::vector<VirtAddr>& hot) {
  const auto is_hot = [&](VirtAddr address) { return std::ranges::find(hot, address) != hot.end(); };
  // From a jump to the entry, and from there to the other callers' jumps.
  for (int pass = 0; pass < 2; ++pass) {
    std::set<VirtAddr> slots;
    for (const plan::ProbePoint& point : plan.points)
      if (point.slot && is_hot(point.address)) slots.insert(point.slot);
    for (const plan::ProbePoint& point : plan.points) {
      if (!slots.contains(point.slot) || is_hot(point.address)) continue;
      mech::BreakpointSite* site = space_->find(point.address);
      if (site == nullptr || std::exchange(site->considered, true)) continue;
      hot.push_back(point.address);
    }
  }
}

// What the callers' files say of slots that have not been asked about yet. Of a call by what is a pointer,
// too, only the function's entry can tell.
void Image::examine_slots() {
  std::map<elf::ObjectId, std::vector<ElfAddr>> by_caller;
  for (const Waiting& function : wrapping_.queued) {
    const elf::LoadedObject* caller = object(function.point.caller_object);
    if (function.point.slot && !function.entry && caller != nullptr)
      by_caller[caller->id].push_back(caller->in_file(function.point.slot));
  }
  std::set<VirtAddr> pointers;
  for (auto& [id, slots] : by_caller) {
    const elf::LoadedObject& caller = *object(id);
    for (ElfAddr slot : caller.file->slots_used_otherwise(std::move(slots))) pointers.insert(caller.at(slot));
  }
  std::vector<Waiting> rest;
  for (Waiting& function : wrapping_.queued) {
    const bool asked = function.point.slot && !function.entry;
    if (asked && pointers.contains(function.point.slot)) {
      stays_breakpoint(function.point, services_.registry.at(function.probe), std::string(kAddressTaken));
      continue;
    }
    if (asked) function.entry.emplace();
    rest.push_back(std::move(function));
  }
  wrapping_.queued = std::move(rest);
}

// Of objects whose slots are filled a little later. Those that wait for other threads then do so no longer
// than they must.
bool Image::awaits_slots(const plan::Objects& callers, plan::Relocated relocated) {
  const auto is_theirs = [&](const Waiting& function) {
    return function.point.slot && std::ranges::any_of(callers, [&](const elf::LoadedObject& caller) {
             return caller.id == function.point.caller_object;
           });
  };
  const bool tried = std::ranges::any_of(wrapping_.waiting, is_theirs);
  if (tried && relocated == plan::Relocated::yes) wrapping_.again_at = 0;
  return tried || std::ranges::any_of(wrapping_.queued, is_theirs);
}

// Takes what slots serve out of `waiting`.
void Image::wrap_slots(std::vector<Waiting>& waiting, std::span<const mech::StoppedThread> threads) {
  const auto others = std::stable_partition(waiting.begin(), waiting.end(),
                                            [](const Waiting& function) { return !function.point.slot; });
  std::vector<Waiting> calls(std::make_move_iterator(others), std::make_move_iterator(waiting.end()));
  waiting.erase(others, waiting.end());
  const auto jumps = std::stable_partition(calls.begin(), calls.end(),
                                           [](const Waiting& call) { return !call.point.tail_jump; });
  std::map<VirtAddr, mech::Trampolines::Answer> answers;
  for (auto call = calls.begin(); call != jumps; ++call) {
    if (has_gone(*call)) continue;
    std::vector<const Waiting*> its;
    for (auto jump = jumps; jump != calls.end(); ++jump)
      if (jump->point.slot == call->point.slot) its.push_back(&*jump);
    answers[call->point.slot] = wrap_slot(*call, its, threads);
  }
  for (Waiting& call : calls) {
    if (!call.point.tail_jump && !answers.contains(call.point.slot)) continue;
    const auto [known, missing] = answers.try_emplace(
        call.point.slot, mech::Declined{"the function that it jumps to has a breakpoint"});
    if (const auto* declined = std::get_if<mech::Declined>(&known->second)) {
      stays_breakpoint(call.point, services_.registry.at(call.probe), declined->reason);
    } else if (const auto* wrapped = std::get_if<mech::Trampolines::Wrapped>(&known->second)) {
      if (!call.point.tail_jump) note_wrapped(call, *wrapped);
      say_wrapped(call, *wrapped);
    } else {
      comes_later(std::move(call), std::get<mech::Busy>(known->second));
    }
  }
}

mech::Trampolines::Answer Image::wrap_slot(Waiting& function, std::span<const Waiting* const> jumps,
                                           std::span<const mech::StoppedThread> threads) {
  const plan::ProbePoint& point = function.point;
  const VirtAddr leads_to{space_->memory().read_value<uint64_t>(point.slot).value_or(0)};
  if (leads_to != point.address) {
    if (object_at(leads_to) != nullptr) return mech::Declined{"its GOT slot leads elsewhere"};
    if (++function.empty_slot > kMostTries) return mech::Declined{"its GOT slot leads to no known code"};
    return mech::Busy{"its GOT slot has not been filled yet"};
  }
  auto made = wanted_for(function);
  if (auto* declined = std::get_if<mech::Declined>(&made)) return std::move(*declined);
  auto& wanted = std::get<mech::Trampolines::Function>(made);
  wanted.slot = point.slot;
  wanted.replaces.push_back({point.address, {function.probe, point.caller_object}});
  for (const Waiting* jump : jumps)
    wanted.replaces.push_back({jump->point.address, {jump->probe, jump->point.caller_object}});
  return wrapping_.trampolines->install(wanted, threads);
}

}  // namespace rtrace::session
