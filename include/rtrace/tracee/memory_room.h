// How much memory a process may yet have charged before the kernel's OOM killer comes: a container's limit.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rtrace::tracee {

// A memory control group: where its files lie, and how they are called in the version of its hierarchy
// (Linux, Documentation/admin-guide/cgroup-v1/memory.rst and cgroup-v2.rst).
struct MemoryGroup {
  std::string folder;
  bool unified = false;  // version 2
  bool operator==(const MemoryGroup&) const = default;
};

// That of the process whose /proc/PID/cgroup this is, and those above it, the innermost first: their limits
// hold too. `root` is where the hierarchies are mounted; what lies there itself is the last: the whole
// machine, which has no limit, or what a container shows as that.
std::vector<MemoryGroup> memory_groups(std::string_view text, const std::string& root);

// Bytes that may be added to what is charged, counting the file pages that the kernel takes back first.
// nullopt where the group has no limit, or the files cannot be read.
std::optional<uint64_t> room_in(const MemoryGroup& group);

// The least of all of the process's groups; nullopt where none has a limit.
std::optional<uint64_t> memory_room(pid_t pid);

}  // namespace rtrace::tracee
