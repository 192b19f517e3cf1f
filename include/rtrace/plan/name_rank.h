// Which of a function's names is shown.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rtrace::plan {

// How well a name suits an address that has several: the literal pattern's name first, a function before a
// clone of another, global before local and weak, fewest leading underscores, the alphabet.
struct NameRank {
  bool not_literal = false;
  bool clone = false;
  bool not_global = false;
  size_t underscores = 0;
  std::string name;
  auto operator<=>(const NameRank&) const = default;
};

NameRank rank_of(std::string_view name, bool literal, bool clone, bool global);

}  // namespace rtrace::plan
