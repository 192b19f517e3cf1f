// A live process's memory.
#pragma once

#include <sys/types.h>

#include <optional>
#include <span>
#include <type_traits>

#include "rtrace/base/memory.h"
#include "rtrace/base/unique_fd.h"

namespace rtrace::tracee {

class ProcessMemory : public Memory {
 public:
  // Any task of the process; ptrace access to it is needed (the tracer's, or the same user's), no stop.
  // Throws Error where /proc/PID/mem cannot be opened. The object serves the memory the process has now:
  // after an exec make a new one.
  explicit ProcessMemory(pid_t pid);

  // process_vm_readv(2): only what the process itself may read. Where the task has ended before its threads
  // (a leader, by pthread_exit(3)), or is not dumpable any more, /proc/PID/mem still leads to the memory: to
  // all of it.
  size_t read(VirtAddr address, std::span<std::byte> out) const override;
  // process_vm_readv(2) alone, of any task that has the memory. nullopt where we may not (EPERM).
  static std::optional<size_t> read_by(pid_t task, VirtAddr address, std::span<std::byte> out);

  // One system call where everything is mapped.
  void read_gathered(std::span<Piece> pieces) const override;

  // Through /proc/PID/mem, which writes to read-only private pages too (copy on write). The process may be
  // running. 0 or the errno.
  int write(VirtAddr address, std::span<const std::byte> bytes) const;
  template <typename T>
  int write_value(VirtAddr address, const T& value) const {
    static_assert(std::is_trivially_copyable_v<T>);
    return write(address, std::as_bytes(std::span(&value, 1)));
  }
  // Reads what the process itself may not (execute-only pages) as well.
  size_t read_forced(VirtAddr address, std::span<std::byte> out) const;

  pid_t pid() const { return pid_; }
  // What is open while this lives.
  int descriptor() const { return mem_.get(); }

 private:
  pid_t pid_;
  UniqueFd mem_;
};

}  // namespace rtrace::tracee
