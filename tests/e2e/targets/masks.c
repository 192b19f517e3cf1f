/* masks [add]: two threads that block all signals and unblock them without pause. A line on standard input,
   and when each has done so a thousand times more it says "ran"; end of file, and it ends. add: they block
   SIGUSR1 and SIGSEGV once, and call add() of the fixture library all the time; where that is not what they
   block any more, status 3. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "fixture.h"

enum { kThreads = 2, kSome = 1 << (SIGUSR1 - 1) | 1 << (SIGSEGV - 1) };
static atomic_ulong rounds[kThreads];

static void* block_all(void* own) {
  for (;; atomic_fetch_add((atomic_ulong*)own, 1)) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
  }
  return NULL;
}

static void* add_up(void* own) {
  uint64_t mask = kSome;
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof mask);
  for (;; atomic_fetch_add((atomic_ulong*)own, 1)) {
    for (int i = 0; i < 10; i++)
      if (add(i, 2) != i + 2) exit(4);
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &mask, sizeof mask);
    if (mask != kSome) exit(3);
  }
  return NULL;
}

static void wait_for_rounds(void) {
  const struct timespec pause = {.tv_nsec = 1000000};
  for (int i = 0; i < kThreads; i++) {
    const unsigned long enough = atomic_load(&rounds[i]) + 1000;
    while (atomic_load(&rounds[i]) < enough) nanosleep(&pause, NULL);
  }
}

int main(int argc, char** argv) {
  (void)argv;
  pthread_t thread;
  for (int i = 0; i < kThreads; i++)
    if (pthread_create(&thread, NULL, argc > 1 ? add_up : block_all, &rounds[i]) != 0) return 2;
  for (int c; (c = getchar()) != EOF;) {
    if (c != '\n') continue;
    wait_for_rounds();
    puts("ran");
    if (fflush(stdout) != 0) return 2;
  }
  return 0;
}
