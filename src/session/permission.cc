#include "rtrace/session/permission.h"

#include <linux/capability.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "rtrace/base/error.h"
#include "rtrace/base/text.h"

namespace rtrace::session {
namespace {

constexpr uint64_t kMayTraceAll = uint64_t{1} << CAP_SYS_PTRACE;

// Documentation/admin-guide/LSM/Yama.rst; absent where Yama is not in the kernel.
std::string yama_scope() {
  std::string scope = tracee::read_file("/proc/sys/kernel/yama/ptrace_scope");
  while (scope.ends_with('\n')) scope.pop_back();
  return scope;
}

// proc(5): the files of a process that is not dumpable belong to root. Of root's own processes nothing can be
// told.
bool is_dumpable(pid_t pid, const tracee::StatusFields& status) {
  struct stat info {};
  return stat(fmt::format("/proc/{}/status", pid).c_str(), &info) != 0 || info.st_uid == status.effective_uid;
}

// Its parent has ended, or is another program, whoever takes in orphans: as a rule process 1, of which we may
// not be allowed to see the program.
bool is_orphaned_engine(const std::string& name, pid_t tracer, pid_t parent) {
  if (!name.starts_with("rtrace-engine")) return false;
  const auto above = tracee::read_status(parent);
  if (!above || above->state == 'Z' || above->state == 'X' || !above->has_memory) return true;
  struct stat its {};
  struct stat parents {};
  if (stat(fmt::format("/proc/{}/exe", tracer).c_str(), &its) != 0 ||
      stat(fmt::format("/proc/{}/exe", parent).c_str(), &parents) != 0)
    return parent == 1;
  return std::pair(its.st_dev, its.st_ino) != std::pair(parents.st_dev, parents.st_ino);
}

void find_tracer(pid_t pid, Standing& standing) {
  for (pid_t tid : tracee::read_tasks(pid)) {
    const auto status = tracee::read_status(tid);
    if (!status || status->tracer == 0 || status->tracer == getpid()) continue;
    standing.thread = tid;
    standing.tracer = status->tracer;
    standing.tracer_name = tracee::read_comm(status->tracer);
    if (const auto tracer = tracee::read_status(status->tracer))
      standing.tracer_leaves = is_orphaned_engine(standing.tracer_name, status->tracer, tracer->parent);
    return;
  }
}

std::string already_traced(const Standing& standing) {
  const bool one_thread = standing.process && standing.thread != standing.process->tgid;
  const std::string what = one_thread ? fmt::format("its thread {}", standing.thread) : std::string("it");
  if (standing.tracer_leaves)
    return fmt::format("process {} ({}), whose visible process was killed, has not left {} yet; try again",
                       standing.tracer, standing.tracer_name, what);
  return fmt::format("process {} ({}) is tracing {} already; end that first", standing.tracer,
                     standing.tracer_name, what);
}

std::string refused_by_yama(const std::string& scope) {
  const std::string limit = scope == "1"   ? "a process's own descendants to be traced"
                            : scope == "2" ? "only processes with CAP_SYS_PTRACE to trace"
                                           : "nobody to trace, until the next boot";
  const std::string fix =
      scope == "3" ? "" : "; run rtrace as root, or lift it: sysctl kernel.yama.ptrace_scope=0";
  return fmt::format("kernel.yama.ptrace_scope is {}, which allows {}{}", scope, limit, fix);
}

// What makes CAP_SYS_PTRACE necessary (ptrace(2), "Ptrace access mode checking"); empty where nothing does.
std::string needs_capability(const Standing& standing) {
  const tracee::StatusFields& process = *standing.process;
  if (process.uid != standing.us.uid)
    return fmt::format("it belongs to uid {}, rtrace runs as uid {}", process.uid, standing.us.uid);
  if (process.effective_uid != standing.us.uid || process.saved_uid != standing.us.uid)
    return fmt::format("it is a set-user-id program: it acts as uid {}, rtrace runs as uid {}",
                       process.effective_uid, standing.us.uid);
  if (!standing.dumpable)
    return "it is not dumpable: it changed its user or its capabilities, its file cannot be read, or it "
           "asked for that by prctl(PR_SET_DUMPABLE)";
  if ((process.permitted & ~standing.us.permitted) != 0) return "it has capabilities that rtrace has not";
  return {};
}

std::string with_fix(const Standing& standing, const std::string& reason) {
  if (standing.us.uid == 0)
    return reason +
           ", and CAP_SYS_PTRACE is missing; give rtrace that capability (in a container: "
           "--cap-add=SYS_PTRACE)";
  const bool of_other_user = standing.process->uid != standing.us.uid;
  return reason + (of_other_user ? "; run rtrace as that user or as root" : "; run rtrace as root");
}

std::string refused(const Standing& standing) {
  if (standing.tracer != 0) return already_traced(standing);
  if (standing.yama_scope == "3") return refused_by_yama("3");
  if ((standing.us.effective & kMayTraceAll) != 0)
    return "the kernel does not permit it, though rtrace has CAP_SYS_PTRACE: another tracer may have held it "
           "for a moment (try again), it may live in a user namespace outside ours, or a security module "
           "(SELinux, AppArmor) forbids it";
  if (const std::string reason = needs_capability(standing); !reason.empty())
    return with_fix(standing, reason);
  if (!standing.yama_scope.empty() && standing.yama_scope != "0") return refused_by_yama(standing.yama_scope);
  return "the kernel does not permit it: another tracer may have held it for a moment (try again), or a "
         "security module (SELinux, AppArmor) or a seccomp filter forbids it";
}

// kthreadd is the parent of all of them (kernel/kthread.c).
bool is_kernel_thread(pid_t pid, const tracee::StatusFields& process) {
  constexpr pid_t kKthreadd = 2;
  return !process.has_memory && (pid == kKthreadd || process.parent == kKthreadd);
}

}  // namespace

Standing standing_of(pid_t pid) {
  Standing standing;
  standing.process = tracee::read_status(pid);
  standing.yama_scope = yama_scope();
  standing.ourselves = pid == getpid() || pid == getppid();
  standing.us = tracee::read_status(getpid()).value_or(tracee::StatusFields{});
  if (!standing.process) return standing;
  standing.dumpable = is_dumpable(pid, *standing.process);
  standing.leaderless = standing.process->state == 'Z' && tracee::read_tasks(pid).size() > 1;
  find_tracer(pid, standing);
  return standing;
}

std::string why_not_attachable(pid_t pid, const Standing& standing) {
  if (!standing.process) return "no such process";
  const tracee::StatusFields& process = *standing.process;
  if (process.tgid != pid) return fmt::format("it is a thread of process {0}; attach to {0}", process.tgid);
  if (standing.ourselves) return "that is rtrace itself";
  if (standing.leaderless)
    return "its main thread has ended (pthread_exit), and by it its memory would be found";
  if (process.state == 'Z' || process.state == 'X')
    return "it is a zombie: it has ended, and its parent has not collected it";
  if (is_kernel_thread(pid, process)) return "it is a kernel thread";
  if (!process.has_memory) return "it has ended";
  if (standing.tracer != 0) return already_traced(standing);
  return {};
}

bool first_thread_ends(pid_t pid, const Standing& standing) {
  if (!standing.process || is_kernel_thread(pid, *standing.process)) return false;
  const tracee::StatusFields& process = *standing.process;
  return process.state == 'Z' || process.state == 'X' || !process.has_memory;
}

std::string why_memory_is_closed(const Standing& standing) {
  const bool ends = standing.process && !standing.process->has_memory && !standing.leaderless;
  if (!standing.process || ends || (standing.us.effective & kMayTraceAll) != 0) return {};
  const std::string reason = needs_capability(standing);
  return reason.empty() ? reason : with_fix(standing, reason);
}

std::string why_seize_failed(const Standing& standing, int error_number) {
  if (error_number == ESRCH || !standing.process) return "it has ended";
  return error_number == EPERM ? refused(standing) : strerror(error_number);
}

}  // namespace rtrace::session
