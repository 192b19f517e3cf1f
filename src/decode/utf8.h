#pragma once

#include <cstddef>
#include <string_view>

namespace rtrace::decode {

// The length of the well-formed character of more than one byte at the front (Unicode 15, table 3-7); 0 where
// there is none, or where it is one of the C1 controls, which terminals obey like the others.
size_t printable_utf8(std::string_view text);

// Whether this is the beginning of such a character, and no more.
bool is_cut_utf8(std::string_view text);

}  // namespace rtrace::decode
