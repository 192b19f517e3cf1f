// Capstone as we use it: for x86-64 alone.
#pragma once

#include <capstone/capstone.h>

namespace rtrace::arch {

// A handle for 64-bit code. The caller closes it.
csh open_capstone();

}  // namespace rtrace::arch
