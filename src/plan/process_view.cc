#include "process_view.h"

namespace rtrace::plan {

ObjectNames names_of(const elf::LoadedObject& object) {
  return {
      .path = object.path, .soname = std::string(object.file->soname()), .main_program = object.main_program};
}

std::vector<ObjectNames> names_of(const Objects& objects) {
  std::vector<ObjectNames> names;
  names.reserve(objects.size());
  for (const elf::LoadedObject& object : objects) names.push_back(names_of(object));
  return names;
}

ProcessView::ProcessView(const Objects& objects, const Objects& added, const Memory& memory,
                         Relocated relocated, const Implementations& known, const Elsewhere& elsewhere)
    : objects_(objects),
      added_(added),
      memory_(memory),
      relocated_(relocated),
      known_(known),
      elsewhere_(elsewhere) {
  for (const elf::LoadedObject& object : added) added_ids_.insert(object.id);
}

const elf::LoadedObject* ProcessView::executable_at(VirtAddr address) const {
  for (const elf::LoadedObject& object : objects_)
    if (object.maps_executable(address)) return &object;
  const elf::LoadedObject* other = address && elsewhere_ ? elsewhere_(address) : nullptr;
  return other != nullptr && other->maps_executable(address) ? other : nullptr;
}

std::optional<VirtAddr> ProcessView::slot_value(const elf::LoadedObject& owner, ElfAddr slot) const {
  if (relocated_ == Relocated::no && is_added(owner)) return std::nullopt;
  auto value = memory_.read_value<uint64_t>(owner.at(slot));
  if (!value || executable_at(VirtAddr{*value}) == nullptr) return std::nullopt;
  return VirtAddr{*value};
}

// A lazy JUMP_SLOT points behind the jump of the owner's own stub until the first call (psABI 5.2.3). A
// GLOB_DAT slot is never lazy, and may well point into its owner.
std::optional<VirtAddr> ProcessView::bound_function(const elf::LoadedObject& caller,
                                                    const elf::CallSlot& slot) const {
  auto value = slot_value(caller, slot.slot);
  if (!value) return std::nullopt;
  bool may_be_lazy = slot.relocation == elf::CallSlot::Relocation::jump_slot;
  if (may_be_lazy && caller.maps_executable(*value)) return std::nullopt;
  return value;
}

std::optional<VirtAddr> ProcessView::implementation(const elf::LoadedObject& object,
                                                    const elf::Symbol& ifunc) const {
  if (auto answer = known_.find(object.at(ifunc.address));
      answer != known_.end() && executable_at(answer->second) != nullptr)
    return answer->second;
  for (const elf::IrelativeSlot& slot : object.file->irelative_slots()) {
    if (slot.resolver != ifunc.address) continue;
    auto value = slot_value(object, slot.slot);
    if (value && *value != object.at(slot.resolver)) return value;
  }
  for (const elf::LoadedObject& caller : objects_) {
    if (caller.link_namespace != object.link_namespace) continue;
    for (const elf::CallSlot& slot : caller.file->find_call_slots(ifunc.name)) {
      auto definition = resolve(objects_, caller, slot.name, slot.version);
      if (!definition || definition->object->id != object.id || definition->symbol.address != ifunc.address)
        continue;
      if (auto value = bound_function(caller, slot)) return value;
    }
  }
  return std::nullopt;
}

}  // namespace rtrace::plan
