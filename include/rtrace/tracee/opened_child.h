// A fork child whose memory its tracer may not open, although it had opened the parent's: that has made
// itself not dumpable since (prctl(2), PR_SET_DUMPABLE), and its children begin so.
#pragma once

#include <sys/types.h>

#include "rtrace/base/memory.h"

namespace rtrace::tracee {

// While it lives such a child is dumpable, for it has said so itself; of others nothing is changed, nor where
// the child could not give it back. The calls are made at the instruction by which it was made, whose
// registers come back: if we die amid one the child finds its result, 0, as that of fork().
class OpenedChild {
 public:
  // `child` is in a consumed ptrace-stop behind that instruction, which `code` has too.
  OpenedChild(pid_t child, const Memory& code);
  ~OpenedChild();
  OpenedChild(const OpenedChild&) = delete;
  OpenedChild& operator=(const OpenedChild&) = delete;

 private:
  pid_t child_;
  bool opened_ = false;
};

}  // namespace rtrace::tracee
