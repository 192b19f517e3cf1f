#include "permission.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "rtrace/base/error.h"
#include "rtrace/base/text.h"
#include "rtrace/tracee/proc_fs.h"

namespace rtrace::session {
namespace {

// Documentation/admin-guide/LSM/Yama.rst; absent where Yama is not in the kernel.
std::string yama_scope() {
  std::string scope = tracee::read_file("/proc/sys/kernel/yama/ptrace_scope");
  while (scope.ends_with('\n')) scope.pop_back();
  return scope;
}

}  // namespace

std::string why_not_attachable(pid_t pid) {
  const auto status = tracee::read_status(pid);
  if (!status) return "no such process";
  if (status->tgid != pid) return fmt::format("it is a thread of process {}; attach to that", status->tgid);
  if (pid == getpid() || pid == getppid()) return "that is rtrace itself";
  if (status->state == 'Z' || status->state == 'X')
    return "it is a zombie: it has ended, and its parent has not collected it";
  if (status->kernel_thread) return "it is a kernel thread";
  if (status->tracer != 0)
    return fmt::format("process {} ({}) is tracing it already; end that first", status->tracer,
                       tracee::read_comm(status->tracer));
  return {};
}

std::string why_seize_failed(pid_t pid, int error_number) {
  if (error_number == ESRCH) return "it has ended";
  const auto status = tracee::read_status(pid);
  if (error_number != EPERM || !status) return strerror(error_number);
  if (status->tracer != 0)
    return fmt::format("process {} ({}) is tracing it already; end that first", status->tracer,
                       tracee::read_comm(status->tracer));
  const uid_t self = geteuid();
  if (self != 0 && status->uid != self)
    return fmt::format("it belongs to uid {}, rtrace runs as uid {}; run rtrace as that user or as root",
                       status->uid, self);
  if (const std::string scope = yama_scope(); self != 0 && !scope.empty() && scope != "0")
    return fmt::format(
        "kernel.yama.ptrace_scope is {}, which allows only {}; run rtrace as root, or set it to 0: sysctl "
        "kernel.yama.ptrace_scope=0",
        scope,
        scope == "1"   ? "children of the tracer"
        : scope == "2" ? "processes with CAP_SYS_PTRACE"
                       : "nobody, until the next boot");
  if (self != 0) return "it is not dumpable (it changed its user, or asked for that); run rtrace as root";
  return "CAP_SYS_PTRACE is missing; give rtrace that capability (in a container: --cap-add=SYS_PTRACE)";
}

}  // namespace rtrace::session
