/* catches [children|beside|blocking] [FLAG...]: calls add() of the fixture library and checks what it gets,
   and that a handler of its own for SIGTRAP, set with these of `siginfo`, `nodefer`, `stack`, is what it
   finds set, and gets each SIGTRAP that is meant for it: sent, of an int3 of its own, of steps; in children
   or in a second thread, too, that does little else, or sends it to itself while it blocks it. To each line
   on standard input it says how many rounds that were and what was wrong; the end of the input ends it. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"

static __thread volatile sig_atomic_t taken;
static atomic_int over;
static atomic_long rounds, wrong[6];
static int flags, blocking;

static void handler(int signal) {
  if (signal == SIGTRAP) taken = taken + 1;
}

static void handler_with_info(int signal, siginfo_t* info, void* context) {
  handler(context != NULL && info->si_signo == SIGTRAP ? signal : 0);
}

static int is_set(void) {
  const int restorer = 0x04000000; /* which the C library adds, and shows */
  struct sigaction now;
  memset(&now, 0x55, sizeof now);
  if (sigaction(SIGTRAP, NULL, &now) != 0 || (now.sa_flags & ~restorer) != flags) return 0;
  return ((flags & SA_SIGINFO) != 0 ? now.sa_sigaction == handler_with_info : now.sa_handler == handler) &&
         sigismember(&now.sa_mask, SIGUSR2) == 1 && sigismember(&now.sa_mask, SIGUSR1) == 0;
}

static int step_twice(void) {
  const int before = taken;
  __asm__ volatile(
      "sub $128, %%rsp\n\tpushfq\n\tpushfq\n\torq $0x100, (%%rsp)\n\tpopfq\n\tnop\n\tpopfq\n\tadd $128, "
      "%%rsp" ::
          : "memory", "cc");
  return taken - before;
}

static int takes(void (*send)(void)) {
  const int before = taken;
  send();
  return taken == before + 1;
}

static void raise_it(void) {
  raise(SIGTRAP);
}

static void meet_int3(void) {
  __asm__ volatile("int3" ::: "memory");
}

static int child_is_well(void) {
  int status = 1;
  const pid_t child = fork();
  if (child == 0) _exit(is_set() && takes(raise_it) && add(2, 3) == 5 ? 0 : 1);
  return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static void* answer(void* unused) {
  char line[16];
  while (fgets(line, sizeof line, stdin)) {
    printf("%ld rounds, wrong:", atomic_load(&rounds));
    for (int i = 0; i < 6; i++) printf(" %ld", atomic_load(&wrong[i]));
    puts("");
    fflush(stdout);
  }
  atomic_store(&over, 1);
  return unused;
}

static void raise_blocked(void) {
  sigset_t trap, before;
  sigemptyset(&trap);
  sigaddset(&trap, SIGTRAP);
  pthread_sigmask(SIG_BLOCK, &trap, &before);
  raise(SIGTRAP);
  add(1, 2);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void* look_and_take(void* unused) {
  while (!atomic_load(&over)) {
    atomic_fetch_add(&wrong[1], !is_set());
    for (int i = 0; i < 8; i++) atomic_fetch_add(&wrong[3], !takes(meet_int3));
    if (blocking) atomic_fetch_add(&wrong[2], !takes(raise_blocked));
  }
  return unused;
}

int main(int argc, char** argv) {
  static char alternate[65536];
  const stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
  struct sigaction own = {.sa_handler = handler};
  pthread_t reader, second;
  const int children = argc > 1 && strcmp(argv[1], "children") == 0;
  blocking = argc > 1 && strcmp(argv[1], "blocking") == 0;
  const int beside = blocking || (argc > 1 && strcmp(argv[1], "beside") == 0);
  for (int i = 1 + children + beside; i < argc; i++)
    flags |= strcmp(argv[i], "siginfo") == 0   ? SA_SIGINFO
             : strcmp(argv[i], "nodefer") == 0 ? SA_NODEFER
                                               : SA_ONSTACK;
  if ((flags & SA_SIGINFO) != 0) own.sa_sigaction = handler_with_info;
  own.sa_flags = flags;
  sigaddset(&own.sa_mask, SIGUSR2);
  if (sigaltstack(&stack, NULL) != 0 || sigaction(SIGTRAP, &own, NULL) != 0) return 2;
  const int steps = step_twice();
  puts("pid ");
  fflush(stdout);
  if (pthread_create(&reader, NULL, answer, NULL) != 0) return 2;
  if (beside && pthread_create(&second, NULL, look_and_take, NULL) != 0) return 2;
  for (int i = 0; !atomic_load(&over); i = (i + 1) % 10000, atomic_fetch_add(&rounds, 1)) {
    atomic_fetch_add(&wrong[0], add(i, 1) != i + 1);
    if (i % 64 == 1) atomic_fetch_add(&wrong[1], !is_set());
    if (i % 64 == 2) atomic_fetch_add(&wrong[2], !takes(raise_it));
    if (i % 64 == 3) atomic_fetch_add(&wrong[3], !takes(meet_int3));
    if (i % 64 == 4) atomic_fetch_add(&wrong[4], step_twice() != steps);
    if (children && i % 512 == 5) atomic_fetch_add(&wrong[5], !child_is_well());
  }
  pthread_join(reader, NULL);
  if (beside) pthread_join(second, NULL);
  for (int i = 0; i < 6; i++)
    if (wrong[i] != 0) return 1;
  return 0;
}
