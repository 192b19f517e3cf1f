/* spawn [-t] ROUNDS COMMAND [ARGUMENT...]: the least time, of so many rounds, that it took to run the command
   to its end. With -t under bare ptrace: fork, PTRACE_SEIZE, exec, continue at each stop, wait. That is the
   floor of a tracer's start-up; without -t the same clock measures a tracer that is the command. */
#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "floor.h"

static void run_child(char** words, int traced) {
  int null = open("/dev/null", O_RDWR);
  for (int fd = 0; fd < 3; fd++) dup2(null, fd);
  if (traced) raise(SIGSTOP);
  execvp(words[0], words);
  _exit(127);
}

/* Seizes the child, which stops itself before its exec, and lets it pass each of its stops. */
static int trace(pid_t child) {
  int status;
  if (waitpid(child, &status, WUNTRACED) != child || !WIFSTOPPED(status)) fail("the child's start");
  if (ptrace(PTRACE_SEIZE, child, 0, PTRACE_O_EXITKILL | PTRACE_O_TRACEEXEC) != 0) fail("PTRACE_SEIZE");
  kill(child, SIGCONT);
  while (waitpid(child, &status, __WALL) == child && WIFSTOPPED(status)) {
    int event = status >> 16, signal = WSTOPSIG(status);
    long deliver = event != 0 || signal == SIGTRAP ? 0 : signal;
    if (ptrace(PTRACE_CONT, child, 0, deliver) != 0) fail("PTRACE_CONT");
  }
  return status;
}

static uint64_t children_cpu_ns(void) {
  struct rusage usage;
  getrusage(RUSAGE_CHILDREN, &usage);
  return ((uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000U +
          (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec)) *
         1000U;
}

int main(int argc, char** argv) {
  begin();
  int traced = argc > 1 && strcmp(argv[1], "-t") == 0;
  char** words = argv + 1 + traced;
  if (argc < 3 + traced) return 2;
  int rounds = atoi(*words++);
  uint64_t least = UINT64_MAX, least_cpu = UINT64_MAX;
  for (int i = 0; i < rounds; i++) {
    uint64_t started = now_ns(), cpu = cpu_ns() + children_cpu_ns();
    pid_t child = fork();
    if (child < 0) fail("fork");
    if (child == 0) run_child(words, traced);
    int status = 0;
    if (traced)
      status = trace(child);
    else if (waitpid(child, &status, 0) != child)
      fail("waitpid");
    uint64_t took = now_ns() - started;
    cpu = cpu_ns() + children_cpu_ns() - cpu;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
      fprintf(stderr, "%s: status %#x\n", words[0], (unsigned)status);
      return 1;
    }
    if (took < least) least = took;
    if (cpu < least_cpu) least_cpu = cpu;
  }
  report(traced ? "spawn_traced" : "spawn", (double)least, (double)least_cpu, (uint64_t)rounds);
  return 0;
}
