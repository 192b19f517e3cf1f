// Whether C++ passes a class by reference.
#pragma once

#include "die.h"

namespace rtrace::dwarf {

// True for a class that is "non-trivial for the purposes of calls" (Itanium C++ ABI, 1.1): it has a copy or
// move constructor or a destructor that does something, or no copy or move constructor that may be called.
// Such a class is passed and returned by the address of a copy.
bool is_passed_by_reference(const Die& aggregate);

}  // namespace rtrace::dwarf
