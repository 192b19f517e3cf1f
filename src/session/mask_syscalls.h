// Where a C library blocks signals for its own ends: not by the functions that others call.
#pragma once

#include <span>
#include <vector>

#include "rtrace/base/address.h"

namespace rtrace::session {

// In `code`, which lies at `at`: each `syscall` to which straight code leads that loads eax with
// rt_sigprocmask's number, and before that edi with SIG_BLOCK. What is loaded is a guess; that it is such an
// instruction is not, and who meets one looks at its registers.
std::vector<VirtAddr> find_mask_syscalls(std::span<const std::byte> code, VirtAddr at);

}  // namespace rtrace::session
