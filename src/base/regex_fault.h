// Where in a regular expression the mistake is that regcomp(3) speaks of, which does not say.
#pragma once

#include <cstddef>
#include <string>

namespace rtrace {

// `flags` and `code` are regcomp's. A position in the text; 0 where it cannot be told.
size_t regex_fault(const std::string& text, int flags, int code);

}  // namespace rtrace
