/* full_mask [late | again | vfork | exits | forks | raw]: handlers for SIGUSR1 and SIGUSR2 that call add() of
   the fixture library, and block all signals while they run. A line on standard input, and it raises both,
   and says "done"; end of file, and it ends. Status 0: all sums were right, and what it asked for was what it
   had set. late: they are set when the first line comes. again: anew for every line. vfork: from the first
   line on a thread sleeps in the hands of a child that has its memory. exits: there the first thread ends.
   forks: from the first line on four threads make children all the time, which wait for the end, and look
   then what they have. raw: one more is set by a system call of its own, whose arguments must stay what they
   were. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"

static atomic_int runs, wrong;

static void sum(int number) {
  sigset_t now;
  sigprocmask(SIG_BLOCK, NULL, &now);
  if (add(number, 1) != number + 1 || !sigismember(&now, SIGINT)) atomic_fetch_add(&wrong, 1);
  atomic_fetch_add(&runs, 1);
}

static void set(int number) {
  struct sigaction action = {.sa_handler = sum, .sa_flags = SA_RESTART};
  sigfillset(&action.sa_mask);
  if (sigaction(number, &action, NULL) != 0) atomic_fetch_add(&wrong, 1);
}

/* What stands is told as it was set, also where the same call sets it anew. */
static void check(int number) {
  struct sigaction action = {.sa_handler = sum, .sa_flags = SA_RESTART}, told;
  sigfillset(&action.sa_mask);
  for (int again = 0; again < 2; again++)
    if (sigaction(number, again ? &action : NULL, &told) != 0 || told.sa_handler != sum ||
        !sigismember(&told.sa_mask, SIGTRAP) || !sigismember(&told.sa_mask, SIGHUP) ||
        told.sa_flags & SA_NODEFER)
      atomic_fetch_add(&wrong, 1);
}

static int check_child(void) {
  const pid_t child = fork();
  if (child == 0) {
    check(SIGUSR1);
    raise(SIGUSR1);
    _exit(atomic_load(&wrong));
  }
  int status = -1;
  return waitpid(child, &status, 0) == child && status == 0;
}

static int ends[2], begun[2];

static void wait_for_the_end(void) {
  char byte;
  close(ends[1]);
  while (read(ends[0], &byte, 1) > 0) {
  }
}

static void* lend(void* unused) {
  const pid_t child = vfork();
  if (child == 0) {
    (void)!write(begun[1], "b", 1);
    wait_for_the_end();
    _exit(0);
  }
  waitpid(child, NULL, 0);
  return unused;
}

enum { kThreads = 4, kChildren = 100 };
static pid_t children[kThreads * kChildren];

static void* make_children(void* mine) {
  for (int i = 0; i < kChildren; i++) {
    const pid_t child = fork();
    if (child == 0) {
      add(i, 1);
      wait_for_the_end();
      check(SIGUSR1);
      _exit(atomic_load(&wrong));
    }
    ((pid_t*)mine)[i] = child;
    usleep(500);  // a pace, not a wait for anything
  }
  return mine;
}

static void set_raw(void) {
  struct {
    void (*handler)(int);
    unsigned long flags;
    void* restorer;
    unsigned long mask;
  } action = {sum, SA_RESTART, NULL, ~0UL};
  if (syscall(SYS_rt_sigaction, SIGURG, &action, NULL, 8) != 0 || action.mask != ~0UL)
    atomic_fetch_add(&wrong, 1);
}

static pthread_t threads[kThreads];

static void begin(char way) {
  char byte;
  if (way == 'l') set(SIGUSR1), set(SIGUSR2);
  if (way == 'e') (void)!write(begun[1], "b", 1);
  if (way == 'v' && (pthread_create(&threads[0], NULL, lend, NULL) != 0 || read(begun[0], &byte, 1) != 1))
    exit(2);
  for (int i = 0; way == 'f' && i < kThreads; i++)
    if (pthread_create(&threads[i], NULL, make_children, children + i * kChildren) != 0) exit(2);
}

static void end(char way) {
  for (int i = 0; way == 'f' && i < kThreads; i++) pthread_join(threads[i], NULL);
  close(ends[1]);
  if (way == 'v') pthread_join(threads[0], NULL);
  int status = 0;
  for (int i = 0; way == 'f' && i < kThreads * kChildren; i++)
    if (waitpid(children[i], &status, 0) < 0 || status != 0) atomic_fetch_add(&wrong, 1);
}

static void* serve(void* word) {
  const char way = *(char*)word;
  char line[16];
  puts("pid ");
  fflush(stdout);
  for (int first = 1; fgets(line, sizeof line, stdin); first = 0) {
    if (first) begin(way);
    if (first && way == 'l') continue;
    if (way == 'a') set(SIGUSR1), set(SIGUSR2);
    const int before = atomic_load(&runs);
    raise(SIGUSR1);
    raise(SIGUSR2);
    if (line[0] != 'q') check(SIGUSR1), check(SIGUSR2);
    if (line[0] == 'f' && !check_child()) atomic_fetch_add(&wrong, 1);
    printf("done %d\n", atomic_load(&runs) - before);
    fflush(stdout);
  }
  end(way);
  exit(atomic_load(&wrong) == 0 ? 0 : 1);
}

int main(int argc, char** argv) {
  static char none[] = "-";
  char byte;
  char* const word = argc > 1 ? argv[1] : none;
  if (pipe2(ends, O_CLOEXEC) != 0 || pipe2(begun, O_CLOEXEC) != 0) return 2;
  if (*word != 'l') set(SIGUSR1), set(SIGUSR2);
  if (*word == 'r') set_raw();
  if (*word != 'e') serve(word);
  pthread_t thread;
  if (pthread_create(&thread, NULL, serve, word) != 0 || read(begun[0], &byte, 1) != 1) return 2;
  pthread_exit(NULL);
}
