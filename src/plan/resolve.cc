#include "rtrace/plan/plan.h"

namespace rtrace::plan {
namespace {

// An object without versions serves every request, as glibc's do_lookup_x() has it: an LD_PRELOADed `malloc`
// has none.
std::optional<elf::Symbol> definition_in(const elf::ElfFile& file, std::string_view name,
                                         std::string_view version) {
  auto symbol = file.find_exported(name, version);
  if (symbol || version.empty()) return symbol;
  symbol = file.find_exported(name);
  if (symbol && !symbol->version.empty()) return std::nullopt;
  return symbol;
}

}  // namespace

std::optional<Definition> resolve(const Objects& objects, const elf::LoadedObject& caller,
                                  std::string_view name, std::string_view version) {
  for (const elf::LoadedObject& object : objects) {
    if (object.link_namespace != caller.link_namespace) continue;
    if (auto symbol = definition_in(*object.file, name, version)) return Definition{&object, *symbol};
  }
  return std::nullopt;
}

}  // namespace rtrace::plan
