// The parts of a demangled C++ name. Pure.
#pragma once

#include <string>
#include <string_view>

namespace rtrace::plan {

// Without its parameter list and what follows that: "Foo::bar" of "Foo::bar(int) const".
std::string_view without_parameters(std::string_view name);

// Without the result type, which stands before the names of templates alone (Itanium C++ ABI, 5.1.5.2):
// "lib::f<int>(int)" of "std::vector<int> lib::f<int>(int)". Where the name does not show which part is which
// (results that are pointers to functions), it stays as it is.
std::string_view without_result(std::string_view name);

// Without what the library's version adds to names in the source (Itanium C++ ABI, 5.1.5.1):
// "lib::title(int)" of "lib::title[abi:cxx11](int)".
std::string without_abi_tags(std::string_view name);

}  // namespace rtrace::plan
