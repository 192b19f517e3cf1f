// The functions of one compile unit, found in one walk over its outer entries.
#pragma once

#include <optional>
#include <string_view>
#include <unordered_map>

#include "die.h"
#include "rtrace/base/address.h"

namespace rtrace::dwarf {

class Functions {
 public:
  explicit Functions(const Die& unit);

  // The function that is entered there.
  std::optional<Die> at(ElfAddr address) const;
  // A declaration by the name of its symbol.
  std::optional<Die> declared(std::string_view symbol) const;

 private:
  void collect(const Die& parent, unsigned depth);
  void add(const Die& function);

  std::unordered_map<ElfAddr, Die> by_address_;
  std::unordered_map<std::string_view, Die> declarations_;  // names point into the debug info
};

}  // namespace rtrace::dwarf
