// All places of a name in a table of strings, faster than memmem(3) from one to the next: a start-up searches
// the C library's.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace rtrace::elf {

// In order; they may overlap. Those up to UINT32_MAX, the last that a symbol's st_name can lead to; none
// where `name` is empty.
std::vector<uint32_t> find_places(std::string_view text, std::string_view name);

}  // namespace rtrace::elf
