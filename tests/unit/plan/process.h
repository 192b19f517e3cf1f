// A process made by hand: fixtures at chosen places, and the GOT slots that its dynamic linker would have
// filled.
#pragma once

#include <algorithm>
#include <string>

#include "rtrace/base/memory.h"
#include "rtrace/base/text.h"
#include "rtrace/plan/plan.h"

namespace rtrace::plan {

class FakeProcess {
 public:
  // The first object is the main program unless it is a library by its name.
  const elf::LoadedObject& load(const std::string& fixture, int link_namespace = 0) {
    elf::LoadedObject object;
    object.id = elf::ObjectId{static_cast<uint32_t>(objects.size() + 1)};
    object.path = std::string(PLAN_FIXTURES) + "/" + fixture;
    object.bias = LoadBias{0x7f0000000000 + objects.size() * 0x1000000};
    object.file = elf::ElfFile::open(object.path);
    object.main_program = fixture == "program";
    object.link_namespace = link_namespace;
    objects.push_back(object);
    return objects.back();
  }

  const elf::LoadedObject& operator[](size_t index) const { return objects.at(index); }

  const elf::CallSlot& slot(size_t index, std::string_view name) const {
    for (const elf::CallSlot& slot : objects.at(index).file->call_slots())
      if (slot.name == name) return slot;
    throw Error::make("{} has no slot of {}", objects.at(index).path, name);
  }
  elf::Symbol function(size_t index, std::string_view name) const {
    for (const elf::Symbol& symbol : objects.at(index).file->functions())
      if (symbol.name == name) return symbol;
    throw Error::make("{} has no function {}", objects.at(index).path, name);
  }
  VirtAddr address(size_t index, std::string_view name) const {
    return objects.at(index).at(function(index, name).address);
  }

  void fill_slot(size_t index, ElfAddr slot, VirtAddr value) {
    memory.add_value(objects.at(index).at(slot), value.value);
  }

  Plan plan(const Requests& requests, Relocated relocated = Relocated::yes) const {
    return make_plan(requests, objects, objects, memory, relocated);
  }
  Plan plan_added(const Requests& requests, size_t index, Relocated relocated = Relocated::yes) const {
    return make_plan(requests, objects, {objects.at(index)}, memory, relocated);
  }

  Objects objects;
  BufferMemory memory;
};

inline Request request(Request::Kind kind, const std::string& filter) {
  Request made;
  made.kind = kind;
  made.filter = kind == Request::Kind::library ? Filter::of_library(filter) : Filter::parse(filter);
  made.text = filter;
  return made;
}
inline Request entry(const std::string& filter) {
  return request(Request::Kind::entry, filter);
}
inline Request call(const std::string& filter) {
  return request(Request::Kind::call, filter);
}
inline Request library(const std::string& pattern) {
  return request(Request::Kind::library, pattern);
}

inline std::vector<std::string> names_in(const Plan& plan) {
  std::vector<std::string> names;
  for (const ProbePoint& point : plan.points) names.push_back(point.name);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace rtrace::plan
