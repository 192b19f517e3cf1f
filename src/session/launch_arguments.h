// The arguments of the execve(2) by which the command was run, as the thread had them in registers and
// memory.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "rtrace/arch/regs.h"
#include "rtrace/base/memory.h"

namespace rtrace::session {

class LaunchArguments {
 public:
  // `pid` is the new program, before its first instruction.
  LaunchArguments(pid_t pid, const std::vector<std::string>& command);

  // As a function with the same arguments would find them.
  const arch::Regs& registers() const { return regs_; }
  const Memory& memory() const { return memory_; }

 private:
  arch::Regs regs_;
  BufferMemory memory_;
};

}  // namespace rtrace::session
