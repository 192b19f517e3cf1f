/* park TID ADDRESS: steps that thread until it stands at ADDRESS (hexadecimal), and leaves it there, with its
   process stopped. 1 where it does not come by. It meets no breakpoint on the way: each SIGTRAP is taken for
   a step's. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>

enum { kSteps = 20000 };

static int stands_at(pid_t tid, unsigned long long address) {
  struct user_regs_struct regs;
  return ptrace(PTRACE_GETREGS, tid, 0, &regs) == 0 && regs.rip == address;
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const pid_t tid = atoi(argv[1]);
  const unsigned long long address = strtoull(argv[2], NULL, 16);
  int status = 0;
  if (ptrace(PTRACE_SEIZE, tid, 0, 0) != 0 || ptrace(PTRACE_INTERRUPT, tid, 0, 0) != 0) return 2;
  for (int i = 0; i < kSteps; i++) {
    if (waitpid(tid, &status, __WALL) != tid || !WIFSTOPPED(status)) return 2;
    if (stands_at(tid, address)) return ptrace(PTRACE_DETACH, tid, 0, SIGSTOP) == 0 ? 0 : 2;
    if (ptrace(PTRACE_SINGLESTEP, tid, 0, 0) != 0) return 2;
  }
  // Left in the midst of a step it would be killed by that step's SIGTRAP.
  if (waitpid(tid, &status, __WALL) != tid || ptrace(PTRACE_DETACH, tid, 0, 0) != 0) return 2;
  return 1;
}
