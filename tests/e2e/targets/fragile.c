/* fragile: does one thing that a careless tracer breaks, over and over, until a line comes on standard input,
   and answers by its exit status whether it was left alone.

   forks    children by fork, vfork and posix_spawn that call traced functions
   stack    a coroutine on a 2048-byte stack that stands in the middle of the program's data
   ignored  SIGTRAP ignored
   blocked  SIGTRAP blocked, with a handler
   threads  threads whose signal mask must be the creator's
   filter   a seccomp filter, set after the first line, that kills on mmap, munmap and rt_sigaction */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "fixture.h"

extern char** environ;

static int told(void) {
  struct pollfd fd = {.fd = STDIN_FILENO, .events = POLLIN};
  return poll(&fd, 1, 0) == 1;
}

static int ended_with(pid_t child, int status) {
  int found = -1;
  return waitpid(child, &found, 0) == child && WIFEXITED(found) && WEXITSTATUS(found) == status;
}

static int forks(void) {
  while (!told()) {
    add(1, 1);
    pid_t child = fork();
    if (child == 0) _exit(add(3, 4));
    if (!ended_with(child, 7)) return 2;
    child = vfork();
    if (child == 0) _exit(add(1, 2));
    if (!ended_with(child, 3)) return 3;
    char* words[] = {"true", NULL};
    if (posix_spawn(&child, "/bin/true", NULL, NULL, words, environ) != 0 || !ended_with(child, 0)) return 4;
  }
  return 0;
}

static struct {
  unsigned char canary[65536];
  unsigned char stack[2048];
} arena __attribute__((aligned(4096)));
static ucontext_t outside, inside;

/* It calls nothing but the traced function, and the program is linked with -z now: binding a name would not
   fit on its stack either. */
static volatile int enough;
static void coroutine(void) {
  while (!enough) add(1, 2);
  setcontext(&outside);
}
static void* watch(void* unused) {
  while (!told()) usleep(1000);
  enough = 1;
  return unused;
}
static int stack(void) {
  pthread_t watcher;
  memset(&arena, 0x5a, sizeof arena);
  if (pthread_create(&watcher, NULL, watch, NULL) != 0) return 2;
  getcontext(&inside);
  inside.uc_stack.ss_sp = arena.stack;
  inside.uc_stack.ss_size = sizeof arena.stack;
  makecontext(&inside, coroutine, 0);
  swapcontext(&outside, &inside);
  for (size_t i = 0; i < sizeof arena.canary; ++i)
    if (arena.canary[i] != 0x5a) return 3;
  return 0;
}

static void on_trap(int signal) {
  (void)signal;
}

static int trap(void (*handler)(int), int block) {
  struct sigaction action = {.sa_handler = handler};
  sigset_t traps, now;
  sigemptyset(&traps);
  sigaddset(&traps, SIGTRAP);
  sigaction(SIGTRAP, &action, NULL);
  if (block) sigprocmask(SIG_BLOCK, &traps, NULL);
  while (!told()) add(1, 2);
  sigaction(SIGTRAP, NULL, &action);
  sigprocmask(SIG_BLOCK, NULL, &now);
  return action.sa_handler != handler ? 2 : sigismember(&now, SIGTRAP) != block ? 3 : 0;
}

static void* thread(void* wrong) {
  sigset_t now;
  add(1, 2);
  pthread_sigmask(SIG_BLOCK, NULL, &now);
  if (sigismember(&now, SIGTRAP)) *(int*)wrong = 2;
  return NULL;
}
static int threads(void) {
  int wrong = 0;
  while (!told()) {
    pthread_t one;
    if (pthread_create(&one, NULL, thread, &wrong) != 0) return 3;
    pthread_join(one, NULL);
  }
  return wrong;
}

static int filter(void) {
  struct sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 3, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_munmap, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigaction, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
  };
  struct sock_fprog program = {.len = sizeof rules / sizeof *rules, .filter = rules};
  char line[16];
  if (read(STDIN_FILENO, line, sizeof line) <= 0) return 2;
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    return 3;
  if (write(STDOUT_FILENO, "filtered\n", 9) != 9) return 4;
  while (!told()) add(1, 2);
  return 0;
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  printf("pid %d\n", getpid());
  fflush(stdout);
  if (strcmp(what, "forks") == 0) return forks();
  if (strcmp(what, "stack") == 0) return stack();
  if (strcmp(what, "ignored") == 0) return trap(SIG_IGN, 0);
  if (strcmp(what, "blocked") == 0) return trap(on_trap, 1);
  if (strcmp(what, "threads") == 0) return threads();
  if (strcmp(what, "filter") == 0) return filter();
  return 1;
}
