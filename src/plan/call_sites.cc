#include <algorithm>

#include "planners.h"
#include "symbol_filter.h"

namespace rtrace::plan {
namespace {

using elf::CallSlot;
using elf::LoadedObject;

// Plans one GOT slot of one caller.
class SlotPlanner {
 public:
  SlotPlanner(const ProcessView& view, const ActiveRequest& active, const LoadedObject& caller,
              Findings& findings)
      : view_(view), active_(active), caller_(caller), findings_(findings) {}

  void plan(const CallSlot& slot) {
    auto definition = resolve(view_.objects(), caller_, slot.name, slot.version);
    std::string callee = definition ? definition->object->name() : "";
    if (slot.stub) add_stub(slot, callee);
    // Without a stub the code loads the slot itself, and does not show it by a `call *slot(%rip)` where the
    // compiler keeps the address in a register.
    const std::vector<TailJump> jumps = tail_jumps(slot);
    if (!slot.stub || slot.called_directly || !jumps.empty()) add_entry(slot, definition, callee, jumps);
  }

 private:
  struct Entry {
    VirtAddr address;
    std::string from;  // how it was found
  };
  struct TailJump {
    ElfAddr address;
    const char* form;
  };

  std::vector<TailJump> tail_jumps(const CallSlot& slot) const {
    std::vector<TailJump> jumps;
    for (const ElfAddr jump : slot.tail_jumps)
      if (is_instruction_start(*caller_.file, jump)) jumps.push_back({jump, "jmp *slot(%rip)"});
    for (const ElfAddr jump : register_jumps(*caller_.file, slot)) jumps.push_back({jump, "jmp *%reg"});
    std::erase_if(jumps,
                  [&](const TailJump& jump) { return !caller_.maps_executable(caller_.at(jump.address)); });
    return jumps;
  }

  void add_stub(const CallSlot& slot, const std::string& callee) {
    bool lazy = slot.relocation == CallSlot::Relocation::jump_slot;
    VirtAddr address = caller_.at(*slot.stub);
    if (!caller_.maps_executable(address))
      return decline(slot, "its stub is not in an executable segment", false);
    add(slot, point(slot, address, caller_, callee, lazy ? "PLT stub" : "stub in .plt.got"));
  }

  void add_entry(const CallSlot& slot, const std::optional<Definition>& definition, const std::string& callee,
                 std::span<const TailJump> jumps) {
    auto entry = find_entry(slot, definition);
    if (!entry) return;
    const LoadedObject* where = view_.executable_at(entry->address);
    if (where == nullptr) return decline(slot, "the definition is not in an executable segment", false);
    const bool way_unknown = !slot.stub && !slot.called_directly && jumps.empty();
    const std::string_view why = way_unknown
                                     ? "no stub, and no call by its slot is seen: its address is taken"
                                 : slot.stub ? "calls around the stub"
                                             : "no stub (-fno-plt)";
    const std::string& prototype_object = callee.empty() ? where->name() : callee;
    ProbePoint at_entry = point(slot, entry->address, *where, prototype_object,
                                fmt::format("callee's entry, {}: {}", entry->from, why));
    at_entry.only_from_caller = true;
    at_entry.way_unknown = way_unknown;
    const bool alone = !slot.stub && slot.relocation == CallSlot::Relocation::glob_dat;
    if (alone) at_entry.slot = caller_.at(slot.slot);
    const VirtAddr through = at_entry.slot;
    add(slot, std::move(at_entry));
    for (const TailJump& jump : jumps) {
      ProbePoint tail = point(slot, caller_.at(jump.address), caller_, prototype_object,
                              std::string("tail call: ") + jump.form);
      tail.tail_jump = true;
      tail.slot = through;
      add(slot, std::move(tail));
    }
  }

  // The slot's own value where it has one, for it is what the call will use; else the definition.
  std::optional<Entry> find_entry(const CallSlot& slot, const std::optional<Definition>& definition) {
    if (auto bound = view_.bound_function(caller_, slot)) return Entry{*bound, "read from the GOT slot"};
    if (!definition) {
      decline(slot, "nothing mapped defines it yet", true);
      return std::nullopt;
    }
    if (!definition->symbol.ifunc)
      return Entry{definition->object->at(definition->symbol.address), "found by name"};
    if (auto address = view_.implementation(*definition->object, definition->symbol))
      return Entry{*address, "the implementation that the IFUNC chose"};
    decline(slot, "an IFUNC that nobody has bound yet", true);
    findings_.declined.back().resolver = definition->object->at(definition->symbol.address);
    return std::nullopt;
  }

  ProbePoint point(const CallSlot& slot, VirtAddr address, const LoadedObject& where,
                   const std::string& callee, std::string reason) const {
    ProbePoint point;
    point.kind = ProbeKind::plt;
    point.address = address;
    point.object = where.id;
    point.name = slot.name;
    if (!active_.request.hide_caller) point.caller = caller_.name();
    point.caller_object = caller_.id;
    point.prototype_object = callee;
    point.requests = {active_.index};
    point.reason = std::move(reason);
    return point;
  }

  void add(const CallSlot& slot, ProbePoint point) {
    findings_.points.add(std::move(point), rank_of(slot.name, false, false, true));
  }

  void decline(const CallSlot& slot, std::string reason, bool pending) {
    findings_.declined.push_back({.name = std::string(slot.name),
                                  .object = caller_.name(),
                                  .reason = std::move(reason),
                                  .pending = pending,
                                  .request = active_.index});
  }

  const ProcessView& view_;
  const ActiveRequest& active_;
  const LoadedObject& caller_;
  Findings& findings_;
};

// The objects whose functions an -l asks for.
std::vector<const LoadedObject*> implementers(const ProcessView& view, const Filter& filter) {
  std::vector<const LoadedObject*> found;
  for (const LoadedObject& object : view.objects())
    if (filter.may_match_in(names_of(object))) found.push_back(&object);
  return found;
}

// Whether the slot's function is one that the filter asks for in one of the libraries.
bool is_wanted_of(const std::vector<const LoadedObject*>& libraries, const ProcessView& view,
                  const Filter& filter, const LoadedObject& caller, const CallSlot& slot) {
  // One hash lookup rules most slots out before the whole link map is searched.
  const bool may_be = std::ranges::any_of(libraries, [&](auto* object) {
    return object->file->find_exported(slot.name) || object->file->find_exported(slot.name, slot.version);
  });
  if (!may_be) return false;
  const auto definition = resolve(view.objects(), caller, slot.name, slot.version);
  if (!definition || (!view.is_added(caller) && !view.is_added(*definition->object))) return false;
  if (std::ranges::find(libraries, definition->object) == libraries.end()) return false;
  return filter.matches(slot.name, names_of(*definition->object));
}

std::vector<CallSlot> slots_of(const elf::ElfFile& file, const SymbolFilter& filter) {
  const auto matches = [&](const CallSlot& slot) { return filter.matches(slot.name); };
  const auto names = filter.literal_names();
  if (!names) return file.find_call_slots(matches);
  auto slots = file.find_call_slots(std::vector<std::string_view>(names->begin(), names->end()));
  std::erase_if(slots, [&](const CallSlot& slot) { return !matches(slot); });
  return slots;
}

}  // namespace

void plan_calls_from(const ProcessView& view, const ActiveRequest& active, const LoadedObject& caller,
                     Findings& findings) {
  SymbolFilter filter(active.filter, names_of(caller));
  if (!filter.may_match()) return;
  SlotPlanner planner(view, active, caller, findings);
  for (const CallSlot& slot : slots_of(*caller.file, filter)) planner.plan(slot);
}

void plan_calls_into_libraries(const ProcessView& view, const ActiveRequest& active, Findings& findings) {
  auto libraries = implementers(view, active.filter);
  bool any_added =
      std::any_of(libraries.begin(), libraries.end(), [&](auto* object) { return view.is_added(*object); });
  if (libraries.empty()) return;
  for (const LoadedObject& caller : view.objects()) {
    if (!any_added && !view.is_added(caller)) continue;
    SlotPlanner planner(view, active, caller, findings);
    const auto wanted = [&](const CallSlot& slot) {
      return is_wanted_of(libraries, view, active.filter, caller, slot);
    };
    for (const CallSlot& slot : caller.file->find_call_slots(wanted)) planner.plan(slot);
  }
}

}  // namespace rtrace::plan
