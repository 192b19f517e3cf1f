/* patient children|hot: counts how often epoll_wait(2) fails with EINTR, which it does after any
   interruption, and says "interrupted N". No signal that is not ignored reaches the process. children: 40 of
   them end, one after the other, meanwhile. hot: of three threads the first waits for a line, another calls
   add() without a pause. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"

enum { CHILDREN = 40 };
static atomic_int ended;

static void* call(void* unused) {
  while (!atomic_load(&ended)) add(1, 2);
  return unused;
}

static int till_the_end(void) {
  return !atomic_load(&ended);
}

static int for_each_child(void) {
  static int made;
  if (made++ == CHILDREN) return 0;
  const pid_t child = fork();
  if (child == 0) {
    usleep(3000);
    _exit(0);
  }
  return child > 0;
}

static void count(int (*goes_on)(void)) {
  const int nothing_comes = epoll_create1(0);
  int interrupted = 0;
  struct epoll_event event;
  while (goes_on()) interrupted += epoll_wait(nothing_comes, &event, 1, 15) < 0 && errno == EINTR;
  printf("interrupted %d\n", interrupted);
}

static void* wait_patiently(void* unused) {
  count(till_the_end);
  return unused;
}

static int be_hot(void) {
  pthread_t threads[2];
  if (pthread_create(&threads[0], NULL, call, NULL) != 0 ||
      pthread_create(&threads[1], NULL, wait_patiently, NULL) != 0)
    return 2;
  printf("pid %d\n", (int)getpid());
  fflush(stdout);
  (void)getchar();
  atomic_store(&ended, 1);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  return 0;
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  if (strcmp(argv[1], "hot") == 0) return be_hot();
  count(for_each_child);
  while (wait(NULL) > 0) continue;
  return 0;
}
