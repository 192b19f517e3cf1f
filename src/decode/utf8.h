#pragma once

#include <string_view>

namespace rtrace::decode {

// Whether this is the beginning of a UTF-8 character of more than one byte, and no more.
bool is_cut_utf8(std::string_view text);

}  // namespace rtrace::decode
