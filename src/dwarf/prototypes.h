// A function's entry to its prototype.
#pragma once

#include <memory>
#include <string>

#include "die.h"
#include "rtrace/dwarf/debug_info.h"
#include "types.h"

namespace rtrace::dwarf {

// `function` is in `unit`; `origin` is what the prototype says about where it comes from.
Answer prototype_of(const Die& function, const Die& unit, std::string origin, TypeReader& types,
                    const std::shared_ptr<const proto::TypeScope>& scope);

}  // namespace rtrace::dwarf
