// What the planners ask about the mapped objects and the GOT slots of a process.
#pragma once

#include <optional>
#include <set>

#include "rtrace/plan/plan.h"

namespace rtrace::plan {

ObjectNames names_of(const elf::LoadedObject& object);
std::vector<ObjectNames> names_of(const Objects& objects);

class ProcessView {
 public:
  // All arguments must outlive it.
  ProcessView(const Objects& objects, const Objects& added, const Memory& memory, Relocated relocated,
              const Implementations& known, const Elsewhere& elsewhere);

  const Objects& objects() const { return objects_; }
  const Objects& added() const { return added_; }
  bool is_added(const elf::LoadedObject& object) const { return added_ids_.contains(object.id); }
  // The object that maps the address executable.
  const elf::LoadedObject* executable_at(VirtAddr address) const;

  // The function that a call through this slot reaches, as far as the slot tells: nullopt where the dynamic
  // linker has not filled it yet.
  std::optional<VirtAddr> bound_function(const elf::LoadedObject& caller, const elf::CallSlot& slot) const;
  // The implementation that an IFUNC's resolver chose. The resolver cannot be called from here, but every
  // slot that was filled by calling it tells, unless its answer is known: IRELATIVE slots of the same object,
  // and the GOT slots of those who import it.
  std::optional<VirtAddr> implementation(const elf::LoadedObject& object, const elf::Symbol& ifunc) const;

 private:
  std::optional<VirtAddr> slot_value(const elf::LoadedObject& owner, ElfAddr slot) const;

  const Objects& objects_;
  const Objects& added_;
  const Memory& memory_;
  Relocated relocated_;
  const Implementations& known_;
  const Elsewhere& elsewhere_;
  std::set<elf::ObjectId> added_ids_;
};

}  // namespace rtrace::plan
