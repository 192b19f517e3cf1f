// Where a C library changes a thread's mask for its own ends: not by the functions that others call.
#pragma once

#include <span>
#include <vector>

#include "rtrace/base/address.h"

namespace rtrace::session {

// In `code`, which lies at `at`: each `syscall` to which a few instructions lead that begin by loading eax
// with rt_sigprocmask's number, where r10d is loaded with its fourth argument shortly before. Code is not
// decoded from its beginning: that these bytes are instructions is told by both being there.
struct MaskSyscall {
  VirtAddr address;
  bool blocks = false;  // by the last load of edi before it that there seems to be: SIG_BLOCK
};
std::vector<MaskSyscall> find_mask_syscalls(std::span<const std::byte> code, VirtAddr at);

}  // namespace rtrace::session
