// The functions of one compile unit, found in one walk over its outer entries; those of classes inside of
// functions, lambdas among them, in another, when one is asked for.
#pragma once

#include <cstdint>
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
  std::optional<Die> at(ElfAddr address);
  // A declaration by the name of its symbol.
  std::optional<Die> declared(std::string_view symbol) const;

 private:
  enum class Walk : uint8_t { outer, inner };
  void collect(const Die& parent, unsigned depth);
  void add(const Die& function);

  Die unit_;
  Walk walk_ = Walk::outer;
  std::unordered_map<ElfAddr, Die> by_address_;
  std::unordered_map<std::string_view, Die> declarations_;  // names point into the debug info
};

}  // namespace rtrace::dwarf
