// What /proc says of a process. The parsers are pure; the readers answer "gone" as empty.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "rtrace/base/address.h"

namespace rtrace::tracee {

constexpr std::string_view kVdso = "[vdso]";  // where a mapping's path would be

struct MapsEntry {
  Range range;
  bool readable = false, writable = false, executable = false, shared = false;
  FileOffset offset;
  uint64_t inode = 0;
  std::string path;      // "/usr/lib/libc.so.6", "[heap]", "" for anonymous memory
  bool deleted = false;  // the path had " (deleted)" behind it
  bool file_backed() const { return inode != 0; }
  bool is_vdso() const { return path == kVdso; }  // the kernel's own code, private to the process
  bool operator==(const MapsEntry&) const = default;
};

// proc(5), /proc/pid/maps. Lines that make no sense are left out. Sorted by address, as the kernel prints
// them.
std::vector<MapsEntry> parse_maps(std::string_view text);
std::vector<MapsEntry> read_maps(pid_t pid);
// The entry that holds the address, or nullptr.
const MapsEntry* find_mapping(const std::vector<MapsEntry>& maps, VirtAddr address);
// That of the begin of the file of which `inside` is a part; nullptr where no file is mapped there.
const MapsEntry* first_mapping_of(const std::vector<MapsEntry>& maps, VirtAddr inside);

// proc(5), /proc/pid/status: the fields that rtrace needs.
struct StatusFields {
  std::string name;
  char state = '?';  // R S D T t Z X
  pid_t tgid = 0, parent = 0, tracer = 0;
  pid_t own_tid = 0;  // what it is called in its own pid namespace (NSpid, Linux 4.1)
  uid_t uid = 0, effective_uid = 0, saved_uid = 0;
  gid_t effective_gid = 0;
  uint64_t permitted = 0, effective = 0;  // CapPrm CapEff
  int threads = 0;                        // of the process
  int seccomp = 0;                        // 0 none, 1 strict, 2 filter
  bool no_new_privileges = false;
  bool has_memory = false;    // a VmSize line; neither a kernel thread nor who is ending has one
  uint64_t capabilities = 0;  // CapEff
  uint64_t pending = 0, shared_pending = 0, blocked = 0, ignored = 0,
           caught = 0;  // SigPnd ShdPnd SigBlk SigIgn SigCgt
};
std::optional<StatusFields> parse_status(std::string_view text);
std::optional<StatusFields> read_status(pid_t tid);
// What a task is called in its own pid namespace: gettid() says so there. 0: it is gone.
pid_t own_tid(pid_t tid);
// The task of this process that is called so there; 0: none.
pid_t find_own_tid(pid_t pid, pid_t own_tid);
// One that has ended and not been waited for: a first thread is, until all others have, and stops no more.
bool is_zombie(pid_t tid);
// Whether its calls are on a shadow stack too (x86_Thread_features, Linux 6.6).
bool has_shadow_stack(pid_t pid);

// The processor that a task last ran on (proc(5), /proc/pid/task/tid/stat, field 39).
std::optional<int> parse_last_processor(std::string_view stat);
std::optional<int> last_processor(pid_t pid, pid_t tid);
// Whether a task goes before all ordinary ones on its processor (sched(7): SCHED_FIFO, SCHED_RR,
// SCHED_DEADLINE).
bool is_real_time(pid_t tid);

// proc(5), /proc/pid/auxv: type to value.
using Auxv = std::map<uint64_t, uint64_t>;
Auxv parse_auxv(std::string_view bytes);
Auxv read_auxv(pid_t pid);

// Where a task that sleeps in a system call will be in user code (proc(5), /proc/pid/syscall); nullopt while
// it runs.
struct SleepingPlace {
  VirtAddr pc, sp;
  bool operator==(const SleepingPlace&) const = default;
};
// "number arg0 ... arg5 sp pc", or "-1 sp pc" outside a system call, or "running"
std::optional<SleepingPlace> parse_sleeping_place(std::string_view text);
std::optional<SleepingPlace> read_sleeping_place(pid_t tid);
// The number of the system call that a task sleeps in, -1 where it sleeps outside of any (proc(5),
// /proc/pid/syscall); nullopt while it runs.
std::optional<long> read_syscall(pid_t tid);
// The children that this task has made (proc(5), /proc/pid/task/tid/children).
std::vector<pid_t> read_children(pid_t tid);
// Whether two tasks run in the same memory (kcmp(2)). Where that call is refused, as in containers, it is
// told by look_like_one_memory().
bool share_memory(pid_t one, pid_t other);
// Whether the same is mapped in both and as much of it there. A fork child has less of it, for the kernel
// does not copy what it can find again in files (mm/memory.c, vma_needs_copy); two such children of one
// process may look alike as long as they do the same.
bool look_like_one_memory(pid_t one, pid_t other);
// What stands between us and a system call on a task's behalf. A filter may kill for it.
enum class Seccomp : uint8_t {
  none,
  suspended,  // one is in force, and is suspended for our calls (PTRACE_O_SUSPEND_SECCOMP, ptrace(2))
  trusted,    // a filter is in force that the user says lets our calls through
  forbids,
};
Seccomp seccomp_of(pid_t tid);
inline bool forbids_calls(pid_t tid) {
  return seccomp_of(tid) == Seccomp::forbids;
}
// Of a task in a ptrace-stop. Where it is its process's only one that is read once for each stop: only its
// own code could change it, but for others of its process (SECCOMP_FILTER_FLAG_TSYNC, seccomp(2)), and for
// calls of ours: an action that these have set is not in it.
std::optional<StatusFields> status_of_stopped(pid_t tid);
Seccomp seccomp_of_stopped(pid_t tid);
bool knows_status(pid_t tid);
void forget_status(pid_t tid);                         // it runs on
void remember_status(pid_t tid, StatusFields status);  // it has run nothing but a call of ours
// --trust-seccomp: filters are trusted from now on; the strict mode never is.
void trust_seccomp();
std::vector<pid_t> read_tasks(pid_t pid);
std::string read_comm(pid_t pid);
// Why /proc does not speak of the processes that ptrace(2) knows by their pids here; empty where it does.
// One of another pid namespace shows other processes under the same numbers (pid_namespaces(7)).
std::string why_proc_is_not_ours();
// The whole of a small file; empty where it cannot be read.
std::string read_file(const std::string& path);

inline constexpr uint64_t signal_bit(int signal) {
  return uint64_t{1} << (signal - 1);
}

}  // namespace rtrace::tracee
