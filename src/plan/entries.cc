#include <algorithm>

#include "planners.h"
#include "rtrace/plan/clone_name.h"
#include "symbol_filter.h"

namespace rtrace::plan {
namespace {

using elf::LoadedObject;
using elf::Symbol;

// .symtab names versions too ("memcpy@@GLIBC_2.14"), which are no part of the name.
std::string_view bare_name(const Symbol& symbol) {
  return symbol.name.substr(0, symbol.name.find('@'));
}

std::string_view table_name(Symbol::Table table) {
  switch (table) {
    case Symbol::Table::dynsym:
      return ".dynsym";
    case Symbol::Table::symtab:
      return ".symtab";
    case Symbol::Table::debugdata:
      return ".gnu_debugdata";
    case Symbol::Table::debug_file:
      return "the separate debug file";
  }
  return "a symbol table";
}

// By address, then name.
std::vector<Symbol> candidates(const elf::ElfFile& file, const SymbolFilter& filter) {
  auto names = filter.literal_names();
  if (!names) return file.functions();
  std::vector<Symbol> symbols;
  for (const std::string& name : *names) {
    for (const Symbol& symbol : file.find_function(name)) symbols.push_back(symbol);
    for (const Symbol& clone : file.find_clones(name)) symbols.push_back(clone);
  }
  std::sort(symbols.begin(), symbols.end(), [](const Symbol& a, const Symbol& b) {
    return std::tie(a.address, a.name) < std::tie(b.address, b.name);
  });
  return symbols;
}

class EntryPlanner {
 public:
  EntryPlanner(const ProcessView& view, const ActiveRequest& active, const LoadedObject& object,
               Findings& findings)
      : view_(view),
        active_(active),
        object_(object),
        findings_(findings),
        filter_(active.filter, names_of(object)) {}

  void run() {
    if (!filter_.may_match()) return;
    std::vector<Symbol> symbols = candidates(*object_.file, filter_);
    for (auto first = symbols.begin(); first != symbols.end();) {
      auto last =
          std::find_if(first, symbols.end(), [&](const Symbol& s) { return s.address != first->address; });
      plan_address({first, last});
      first = last;
    }
  }

 private:
  // All the symbols of one address that are known here.
  void plan_address(std::span<const Symbol> symbols) {
    for (const Symbol& symbol : symbols) {
      if (!filter_.matches(bare_name(symbol))) continue;
      if (symbol.ifunc) {
        plan_ifunc(symbol, symbols);
      } else if (!object_.maps_executable(object_.at(symbol.address))) {
        decline(symbol, "its address is not in an executable segment");
      } else if (!may_begin_at(symbol.address)) {
        decline(symbol, "its symbol points into an instruction");
      } else {
        add(symbol, object_, object_.at(symbol.address), symbols, reason(symbol));
      }
    }
  }

  // In most objects nothing is found, and nothing of them need be read for this.
  bool may_begin_at(ElfAddr address) {
    if (!places_) places_.emplace(*object_.file);
    return places_->may_begin_at(address);
  }

  void plan_ifunc(const Symbol& symbol, std::span<const Symbol> symbols) {
    auto address = view_.implementation(object_, symbol);
    if (!address) {
      decline(symbol, "an IFUNC that nobody has bound yet");
      findings_.declined.back().pending = true;
      findings_.declined.back().resolver = object_.at(symbol.address);
      return;
    }
    const LoadedObject* where = view_.executable_at(*address);
    auto chosen = where->file->function_at(where->in_file(*address));
    add(symbol, *where, *address, symbols,
        chosen ? fmt::format("the implementation that the IFUNC chose: {}", chosen->name)
               : "the implementation that the IFUNC chose");
  }

  void add(const Symbol& symbol, const LoadedObject& where, VirtAddr address, std::span<const Symbol> symbols,
           std::string reason) {
    std::string_view name = bare_name(symbol);
    auto clone = clone_of(name);
    bool literal = filter_.names(name);
    std::string_view shown = clone && !literal ? clone->plain : name;
    ProbePoint point;
    point.kind = ProbeKind::entry;
    point.address = address;
    point.object = where.id;
    point.name = shown;
    for (const Symbol& other : symbols)
      // At the address of an IFUNC the resolver has a name of its own, which is none of the implementation.
      if (other.ifunc == symbol.ifunc && bare_name(other) != name)
        point.aliases.emplace_back(bare_name(other));
    if (shown != name) point.aliases.emplace_back(name);
    point.library = object_.main_program ? "" : object_.name();
    point.no_return = is_cold_part(name);
    point.clone = clone && clone->raw_arguments;
    point.prototype_object = object_.name();
    point.requests = {active_.index};
    point.reason = std::move(reason);
    bool global = symbol.binding == Symbol::Binding::global;
    findings_.points.add(std::move(point),
                         rank_of(shown, literal || filter_.names(shown), clone.has_value(), global));
  }

  static std::string reason(const Symbol& symbol) {
    std::string_view table = table_name(symbol.table);
    if (is_cold_part(symbol.name))
      return fmt::format("cold part in {}: entered by a jump, has no return of its own", table);
    if (clone_of(symbol.name)) return fmt::format("the compiler's clone {} in {}", symbol.name, table);
    return fmt::format("function in {}", table);
  }

  void decline(const Symbol& symbol, std::string reason) {
    findings_.declined.push_back({.name = std::string(bare_name(symbol)),
                                  .object = object_.name(),
                                  .reason = std::move(reason),
                                  .request = active_.index});
  }

  const ProcessView& view_;
  const ActiveRequest& active_;
  const LoadedObject& object_;
  Findings& findings_;
  SymbolFilter filter_;
  std::optional<SymbolPlaces> places_;
};

}  // namespace

void plan_entries(const ProcessView& view, const ActiveRequest& active, const LoadedObject& object,
                  Findings& findings) {
  EntryPlanner(view, active, object, findings).run();
}

}  // namespace rtrace::plan
