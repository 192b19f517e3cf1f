// Which functions of the C library nothing can be unwound through.
#pragma once

#include <string_view>

namespace rtrace::session {

bool is_leaf_name(std::string_view name);

}  // namespace rtrace::session
