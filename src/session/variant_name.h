// The names of a C library's implementations of one function, of which the processor's features choose.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rtrace::session {

// What the function may be called that it implements: "memcpy_chk" and "__memcpy_chk" of
// "__memcpy_chk_avx_unaligned_erms". Empty where the name says nothing of that.
std::vector<std::string> implemented_by(std::string_view variant);

// libc, libm and libmvec, by the name of their object.
bool is_c_library(std::string_view object);

}  // namespace rtrace::session
