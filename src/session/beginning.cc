#include "beginning.h"

#include <sys/syscall.h>

#include "privileges.h"
#include "rtrace/tracee/thread.h"

namespace rtrace::session {

bool begins_privileged(const Task& task, Image& image, VirtAddr name) {
  return task.process->silent && task.id.tid == task.process->pid &&
         may_gain_privileges(task.id.tid, image.space().memory(), name);
}

bool begins_by_call(const Task& borrower, const arch::Regs& regs) {
  const pid_t tid = borrower.id.tid;
  Image* image = borrower.process->image.get();
  const auto info =
      image != nullptr && regs.raw.orig_rax == SYS_execve ? tracee::syscall_info(tid) : std::nullopt;
  return info && info->moment == tracee::SyscallInfo::Moment::entry &&
         begins_privileged(borrower, *image, {regs.syscall_argument(0)});
}

void await_exec(Task& borrower) {
  const Process& process = *borrower.process;
  borrower.awaits_exec = process.silent && !tracing_leaves_privileges() && process.image != nullptr &&
                         !process.image->watches_execve();
}

}  // namespace rtrace::session
