/* guarded [later|mild|timed|listed|strict|mdwe|under PROGRAM]: under a seccomp filter that kills on every
   system call by which memory is mapped or a signal's action changed. For each line on standard input calls
   outer(1) and add(1, 1) and says "done"; ends with the input. "later": the first line is for setting the
   filter; "mild": a filter that lets everything through; "timed": that one, and 300 ms pass before each
   "done"; "listed": one that kills on all but what is called here, and returns of handlers, while lines are
   waited for with a timeout; "strict": seccomp's strict mode; "under": runs the program under a filter that
   lets everything through; "mdwe": no seccomp, but memory that can be written can never become executable. */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fixture.h"

enum { kSetMdwe = 65 }; /* PR_SET_MDWE, Linux 6.3 */

#define KILL_ON(number, left) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, (left) + 1, 0)

#define ALLOW(number) \
  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static int set(struct sock_filter* rules, size_t count) {
  struct sock_fprog program = {.len = (unsigned short)count, .filter = rules};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0;
}

static int filter_all_but(void) {
  struct sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      ALLOW(SYS_read),
      ALLOW(SYS_write),
      ALLOW(SYS_poll),
      ALLOW(SYS_exit_group),
      ALLOW(SYS_rt_sigreturn),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
  };
  return set(rules, sizeof rules / sizeof *rules);
}

static int filter(int mild) {
  struct sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      KILL_ON(SYS_mmap, 5),
      KILL_ON(SYS_munmap, 4),
      KILL_ON(SYS_mprotect, 3),
      KILL_ON(SYS_memfd_create, 2),
      KILL_ON(SYS_rt_sigprocmask, 1),
      KILL_ON(SYS_rt_sigaction, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
  };
  const size_t count = sizeof rules / sizeof *rules;
  return mild ? set(rules + count - 2, 1) : set(rules, count);
}

static int wait_for_input(void) {
  struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
  int ready;
  while ((ready = poll(&input, 1, 200)) == 0) continue;
  return ready == 1;
}

static int line(int waits) {
  char byte = 0;
  if (waits && !wait_for_input()) return 0;
  while (read(STDIN_FILENO, &byte, 1) == 1)
    if (byte == '\n') return 1;
  return 0;
}

static int say(const char* text, size_t size) {
  return write(STDOUT_FILENO, text, size) == (ssize_t)size;
}

int main(int argc, char** argv) {
  if (argc > 2 && strcmp(argv[1], "under") == 0) return filter(1) || execv(argv[2], argv + 2);
  const int later = argc > 1 && strcmp(argv[1], "later") == 0;
  char pid[32];
  int size = snprintf(pid, sizeof pid, "pid %d\n", (int)getpid());
  const char* what = argc > 1 ? argv[1] : "";
  const int strict = strcmp(what, "strict") == 0;
  if (strict && prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) return 2;
  if (strcmp(what, "mdwe") == 0 && prctl(kSetMdwe, 1, 0, 0, 0) != 0) return 5;
  const int listed = strcmp(what, "listed") == 0;
  if (listed && filter_all_but()) return 2;
  const int timed = strcmp(what, "timed") == 0;
  if ((argc == 1 || timed || strcmp(what, "mild") == 0) && filter(argc > 1)) return 2;
  if (!say(pid, (size_t)size)) return 3;
  if (later && (!line(0) || filter(0) || !say("filtered\n", 9))) return 2;
  while (line(listed)) {
    if (timed && poll(NULL, 0, 300) != 0) return 6;
    if (outer(1) != 6 || add(1, 1) != 2) return 4;
    char text[8];
    snprintf(text, sizeof text, "%s%c", "done", '\n');
    if (!say(text, strlen(text))) return 3;
  }
  if (strict) syscall(SYS_exit, 0);
  return 0;
}
