#include "functions.h"

#include "units.h"

namespace rtrace::dwarf {
namespace {

// Of namespaces, classes and blocks in each other.
constexpr unsigned kMaxScopes = 16;

// GCC emits a split function's ranges with the part that is entered first.
std::optional<ElfAddr> entry_of(const Die& function) {
  Die self = function;
  Dwarf_Addr address = 0;
  if (dwarf_lowpc(&self, &address) == 0) return ElfAddr{address};
  if (!has(function, DW_AT_ranges)) return std::nullopt;
  auto ranges = ranges_of(function);
  if (ranges.empty()) return std::nullopt;
  return ranges.front().begin;
}

std::string_view symbol_of(const Die& function) {
  for (unsigned attribute :
       {unsigned{DW_AT_linkage_name}, unsigned{DW_AT_MIPS_linkage_name}, unsigned{DW_AT_name}}) {
    std::string_view name = raw_text(function, attribute);
    if (!name.empty()) return name;
  }
  return {};
}

}  // namespace

Functions::Functions(const Die& unit) : unit_(unit) {
  collect(unit_, 0);
}

void Functions::collect(const Die& parent, unsigned depth) {
  for_each_child(parent, [&](const Die& child) {
    switch (tag_of(child)) {
      case DW_TAG_subprogram:
        add(child);
        if (walk_ == Walk::inner && depth < kMaxScopes) collect(child, depth + 1);
        break;
      case DW_TAG_lexical_block:
        if (walk_ == Walk::inner && depth < kMaxScopes) collect(child, depth + 1);
        break;
      // C++ declares methods in classes; Rust defines functions in namespaces.
      case DW_TAG_namespace:
      case DW_TAG_module:
      case DW_TAG_structure_type:
      case DW_TAG_class_type:
      case DW_TAG_union_type:
        if (depth < kMaxScopes) collect(child, depth + 1);
        break;
      default:
        break;
    }
    return true;
  });
}

void Functions::add(const Die& function) {
  if (auto address = entry_of(function)) {
    by_address_.try_emplace(*address, function);
  } else if (flag(function, DW_AT_declaration)) {
    std::string_view symbol = symbol_of(function);
    if (!symbol.empty()) declarations_.try_emplace(symbol, function);
  }
}

std::optional<Die> Functions::at(ElfAddr address) {
  if (walk_ == Walk::outer && !by_address_.contains(address)) {
    walk_ = Walk::inner;
    collect(unit_, 0);
  }
  const auto found = by_address_.find(address);
  return found == by_address_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<Die> Functions::declared(std::string_view symbol) const {
  auto found = declarations_.find(symbol);
  return found == declarations_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace rtrace::dwarf
