// What the kernel's system calls are called.
#pragma once

#include <cstdint>
#include <string>

namespace rtrace::session {

// "openat"; "syscall_0x1234" for a number that nobody has given a name.
std::string syscall_name(uint64_t number);

}  // namespace rtrace::session
