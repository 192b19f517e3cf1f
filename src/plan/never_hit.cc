#include <algorithm>
#include <set>

#include "explain.h"
#include "rtrace/base/text.h"

namespace rtrace::plan {
namespace {

using elf::LoadedObject;

constexpr size_t kNames = 5;
constexpr size_t kImporters = 3;

// An object's imports from the library, nearest to the probed name first. A program that imports much of a
// large library gets the near ones only: the rest would tell nothing, and is not looked up.
struct Importer {
  std::string object;
  std::vector<std::string> names;
  size_t near = 0;
};

Importer importer_of(const ProbePoint& point, const LoadedObject& object, const LoadedObject& library) {
  const std::vector<std::string> candidates = imports_for(object, library);
  const auto exported = [&](const std::string& name) {
    return library.file->find_exported(name).has_value();
  };
  Importer importer{object.name(), {}, 0};
  for (const std::string& name : nearest_names(point.name, candidates, candidates.size()))
    if (importer.names.size() < kNames && exported(name)) importer.names.push_back(name);
  importer.near = importer.names.size();
  std::set<std::string> all;
  for (const std::string& name : candidates) {
    if (exported(name)) all.insert(name);
    if (all.size() > 3 * kNames) return importer;
  }
  for (const std::string& name : all)
    if (std::find(importer.names.begin(), importer.names.end(), name) == importer.names.end())
      importer.names.push_back(name);
  return importer;
}

bool imports_any(const LoadedObject& object, const ProbePoint& point, const LoadedObject& library) {
  std::vector<std::string_view> names(point.aliases.begin(), point.aliases.end());
  names.push_back(point.name);
  return object.file->imports_any(names, library.file.get());
}

const LoadedObject* object_of(elf::ObjectId id, const Objects& objects) {
  auto found =
      std::find_if(objects.begin(), objects.end(), [&](const LoadedObject& o) { return o.id == id; });
  return found == objects.end() ? nullptr : &*found;
}

}  // namespace

std::string explain_never_hit(const ProbePoint& point, const Objects& objects) {
  const LoadedObject* library = object_of(point.object, objects);
  if (point.kind != ProbeKind::entry || library == nullptr) return {};
  std::vector<const LoadedObject*> others;
  for (const LoadedObject& object : objects)
    if (object.id != library->id && object.link_namespace == library->link_namespace)
      others.push_back(&object);
  std::vector<std::string> users;
  for (const LoadedObject* object : others)
    if (imports_any(*object, point, *library)) users.push_back(object->name());
  if (!users.empty())
    return fmt::format("{} {} {}, but did not call it while traced", listed(users, kImporters),
                       users.size() == 1 ? "imports" : "import", point.name);
  std::vector<Importer> importers;
  for (const LoadedObject* object : others)
    if (Importer importer = importer_of(point, *object, *library); !importer.names.empty())
      importers.push_back(std::move(importer));
  std::stable_sort(importers.begin(), importers.end(),
                   [](const Importer& a, const Importer& b) { return a.near > b.near; });
  if (importers.size() > kImporters) importers.resize(kImporters);
  std::vector<std::string> clauses;
  for (const Importer& importer : importers)
    clauses.push_back(fmt::format("{} imports {}", importer.object, listed(importer.names, kNames)));
  if (clauses.empty()) return {};
  return joined(clauses) + fmt::format(", not {}", point.name);
}

}  // namespace rtrace::plan
