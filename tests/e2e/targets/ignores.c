/* ignores TIMES [default | handler]: three threads call add() of the fixture library and check what they get,
   and a fourth one waits, while the first one has SIGTRAP ignored again and again, or by turns ignored, or
   caught, and not. 0 TIMES: until a line comes on standard input, and without a change. Then the disposition
   that it finds, and what was wrong. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "fixture.h"

enum { kThreads = 3 };

static atomic_int over, wrong;

static void handler(int unused) {
  (void)unused;
}

static void* check_sums(void* unused) {
  for (int i = 0; !atomic_load(&over); i = (i + 1) % 1000)
    if (add(i, 1) != i + 1) atomic_fetch_add(&wrong, 1);
  return unused;
}

/* A call that signals which are not ignored end. */
static void* check_wait(void* end) {
  struct epoll_event event = {.events = EPOLLIN};
  const int epoll = epoll_create1(0);
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, *(int*)end, &event) != 0 || epoll_wait(epoll, &event, 1, -1) != 1 ||
      add(1, 2) != 3)
    atomic_fetch_add(&wrong, 1);
  return end;
}

int main(int argc, char** argv) {
  pthread_t threads[kThreads], waiter;
  int ends[2];
  const int times = argc > 1 ? atoi(argv[1]) : 0;
  char line[16];
  for (int i = 0; i < kThreads; i++)
    if (pthread_create(&threads[i], NULL, check_sums, NULL) != 0) return 2;
  if (pipe(ends) != 0 || pthread_create(&waiter, NULL, check_wait, &ends[0]) != 0) return 2;
  puts("pid ");
  fflush(stdout);
  if (times == 0 && !fgets(line, sizeof line, stdin)) return 2;
  for (int i = 0; i < times; i++) {
    const int caught = argc > 2 && argv[2][0] == 'h';
    void (*before)(int) = signal(SIGTRAP, caught ? handler : SIG_IGN);
    if (before != (argc > 2 || i == 0 ? SIG_DFL : SIG_IGN)) atomic_fetch_add(&wrong, 1);
    if (argc > 2 && signal(SIGTRAP, caught ? handler : SIG_IGN) != (caught ? handler : SIG_IGN))
      atomic_fetch_add(&wrong, 1);
    if (argc > 2) signal(SIGTRAP, SIG_DFL);
    usleep(200);  // the others meet probes meanwhile: a pace, not a wait for anything
  }
  // Both are ignored.
  kill(getpid(), argc > 2 ? SIGCONT : SIGTRAP);
  pthread_kill(waiter, argc > 2 ? SIGCONT : SIGTRAP);
  if (write(ends[1], "x", 1) != 1) return 2;
  pthread_join(waiter, NULL);
  struct sigaction now, last, full = {.sa_handler = handler};
  sigaction(SIGTRAP, NULL, &now);
  // By a call that sets another, too.
  sigfillset(&full.sa_mask);
  sigaction(SIGTRAP, &full, &last);
  if (last.sa_handler != now.sa_handler) atomic_fetch_add(&wrong, 1);
  atomic_store(&over, 1);
  for (int i = 0; i < kThreads; i++) pthread_join(threads[i], NULL);
  printf("%s\n", now.sa_handler == SIG_IGN ? "ignored" : now.sa_handler == SIG_DFL ? "default" : "caught");
  return atomic_load(&wrong) == 0 ? 0 : 1;
}
