// Where a wrapper's code comes to lie, and what is written there.
#include "rtrace/mech/trampolines.h"

namespace rtrace::mech {
namespace {

size_t room_for_stub(const Trampolines::Function& function) {
  return function.borrowed && function.borrowed->calls != 0 ? kMaxCalledStub : kMaxWrapperStub;
}

}  // namespace

std::optional<Trampolines::Made> Trampolines::allocate(const Function& function) {
  Foothold& foothold = space_.foothold();
  const auto copy = foothold.allocate(function.entry, arch::kMaxPrologue);
  const auto stub = copy ? foothold.allocate(function.entry, room_for_stub(function)) : std::nullopt;
  if (copy && !stub) foothold.release(*copy, arch::kMaxPrologue);
  return stub ? std::optional(Made{*copy, *stub, {}}) : std::nullopt;
}

void Trampolines::release(const Function& function, const Made& made) {
  space_.foothold().release(made.copy, arch::kMaxPrologue);
  space_.foothold().release(made.stub, room_for_stub(function));
}

// What the wrapper calls, the wrapper, and its plan. What went wrong, in words.
std::string Trampolines::write_code(const Function& function, const Made& made,
                                    std::span<const std::byte> copy, uint32_t index) {
  const Foothold& foothold = space_.foothold();
  agent::FunctionPlan plan = function.plan;
  if (function.borrowed) plan.flags |= agent::FunctionPlan::kBorrowedFrame;
  const auto wrapper =
      wrapper_stub(plan, index,
                   {made.stub, made.copy, foothold.enter(), foothold.leave_call(), foothold.quick_enter(),
                    foothold.quick_leave(), link_.plan_at(index), function.borrowed});
  const bool written = wrapper && space_.memory().write(made.copy, copy) == 0 &&
                       space_.memory().write(made.stub, wrapper->code) == 0 &&
                       write_plan(function, plan, index);
  return written ? "" : "its wrapper cannot be written";
}

// Where the table of shapes has no room its threads stop instead.
bool Trampolines::write_plan(const Function& function, agent::FunctionPlan plan, uint32_t index) {
  const tracee::ProcessMemory& memory = space_.memory();
  const auto place = shapes_.find(function.shapes);
  if (place && !link_.set_shapes(memory, place->first, place->entries)) return false;
  if (place) shapes_.add(*place, function.shapes);
  for (agent::CapturePlan* captures : {&plan.at_entry, &plan.at_return}) {
    if (place)
      *captures = moved(*captures, place->first);
    else if (captures->deep != 0)
      captures->deep = agent::CapturePlan::kOpen;
  }
  return link_.set_plan(memory, index, plan);
}

}  // namespace rtrace::mech
