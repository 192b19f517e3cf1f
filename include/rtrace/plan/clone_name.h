// The names that compilers give to the parts and copies they make of a function.
#pragma once

#include <optional>
#include <string_view>

namespace rtrace::plan {

struct CloneName {
  std::string_view plain;  // the function's own name: "gc_start" of "gc_start.part.0.isra.0"
  bool raw_arguments =
      false;  // .isra, .constprop and .part change what arrives in the registers; others only rename
};

// nullopt for a name that is none, and for `.cold` parts.
std::optional<CloneName> clone_of(std::string_view symbol);

// A `.cold` part (`f.cold`, `f.cold.12`, `f.isra.0.cold`): code that is jumped to in the middle of a call.
bool is_cold_part(std::string_view symbol);

}  // namespace rtrace::plan
