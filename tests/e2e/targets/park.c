/* park TID ADDRESS: steps that thread until it stands at ADDRESS (hexadecimal), and leaves it there, with its
   process stopped. 1 where it does not come by. What is no step's goes to the thread; where it blocks
   SIGTRAP, as in a handler for that, it runs, for a step's would take the handler away. */
#define _GNU_SOURCE
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

static int signal_for_it(pid_t tid, int status) {
  siginfo_t info;
  if (status >> 16 != 0 || ptrace(PTRACE_GETSIGINFO, tid, 0, &info) != 0) return 0;
  return info.si_signo == SIGTRAP && info.si_code == TRAP_TRACE ? 0 : WSTOPSIG(status);
}

static int blocks_trap(pid_t tid) {
  unsigned long long mask = 0;
  return ptrace(PTRACE_GETSIGMASK, tid, sizeof mask, &mask) == 0 && (mask >> (SIGTRAP - 1) & 1) != 0;
}

static int go_on(pid_t tid, int status) {
  const int signal = signal_for_it(tid, status);
  if (signal != SIGTRAP && !blocks_trap(tid)) return ptrace(PTRACE_SINGLESTEP, tid, 0, signal) == 0;
  return ptrace(PTRACE_CONT, tid, 0, signal) == 0 && ptrace(PTRACE_INTERRUPT, tid, 0, 0) == 0;
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
    if (!go_on(tid, status)) return 2;
  }
  // Left in the midst of a step it would be killed by that step's SIGTRAP.
  if (waitpid(tid, &status, __WALL) != tid || !WIFSTOPPED(status)) return 2;
  return ptrace(PTRACE_DETACH, tid, 0, signal_for_it(tid, status)) == 0 ? 1 : 2;
}
