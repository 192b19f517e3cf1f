// Questions to one debugging information entry (DIE). Each is bounded, and answered as if the attribute were
// absent where it is broken.
//
// libdw's functions that follow DW_AT_abstract_origin and DW_AT_specification by themselves (dwarf_diename,
// dwarf_bytesize, dwarf_srclang and what has `integrate` in its name) are not used: entries that refer to
// each other in a circle would keep them busy.
#pragma once

#include <dwarf.h>
#include <elfutils/libdw.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rtrace::dwarf {

using Die = Dwarf_Die;

// Of the children of one entry. A generated enumeration or a namespace of a whole program stays below it.
inline constexpr unsigned kMaxChildren = 1U << 20;

unsigned tag_of(const Die& die);
bool has(const Die& die, unsigned attribute);
bool flag(const Die& die, unsigned attribute);
// Of the constant class, read as unsigned where the form does not say that it is signed.
std::optional<uint64_t> constant(const Die& die, unsigned attribute);
// As the file has it; points into the debug info.
std::string_view raw_text(const Die& die, unsigned attribute);
std::optional<Die> referred(const Die& die, unsigned attribute);

// Printable ASCII, of bounded length: other bytes as in a string, by octal escapes. Names end up in traces.
std::string printable(std::string_view name);
std::string name_of(const Die& die);

// The entry itself, and what it completes: DW_AT_abstract_origin, DW_AT_specification.
std::vector<Die> with_origins(const Die& die);
// The first of them that has the attribute.
std::optional<Die> bearer(const std::vector<Die>& chain, unsigned attribute);

// The definition in a type unit that a stub stands for, else the entry itself.
Die defined(const Die& type);
// What a type is without its typedefs and qualifiers; nullopt for void.
std::optional<Die> bare_type(std::optional<Die> type);

// Calls `visit(child)` for each until it says false.
template <typename Visit>
void for_each_child(const Die& parent, Visit visit) {
  Die self = parent;
  Die child;
  if (dwarf_child(&self, &child) != 0) return;
  for (unsigned i = 0; i < kMaxChildren; ++i) {
    if (!visit(static_cast<const Die&>(child))) return;
    if (dwarf_siblingof(&child, &child) != 0) return;
  }
}

}  // namespace rtrace::dwarf
