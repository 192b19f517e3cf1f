/* blocked: four threads that wait in epoll_wait, poll, sem_wait and nanosleep, as long as nothing is wrong
   for ever. A byte on standard input lets them all go; each must have come back for that and nothing else. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "fixture.h"

enum { kThreads = 4 };
static int gate[2];
static sem_t semaphore;
static _Atomic int waiting;
static _Atomic int over;

static int in_epoll(void) {
  int epoll = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN};
  return epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, gate[0], &event) != 0 ||
         epoll_wait(epoll, &event, 1, -1) != 1;
}

static int in_poll(void) {
  struct pollfd fd = {.fd = gate[0], .events = POLLIN};
  return poll(&fd, 1, -1) != 1;
}

static int in_semaphore(void) {
  return sem_wait(&semaphore) != 0;
}

static int in_nanosleep(void) {
  struct timespec step = {.tv_nsec = 50000000};
  int wrong = 0;
  while (!atomic_load(&over)) wrong |= nanosleep(&step, NULL) != 0;
  return wrong;
}

static int (*const kWays[kThreads])(void) = {in_epoll, in_poll, in_semaphore, in_nanosleep};

static void* wait_once(void* argument) {
  atomic_fetch_add(&waiting, 1);
  return kWays[(long)argument]() ? "interrupted" : NULL;
}

int main(void) {
  if (pipe(gate) != 0 || sem_init(&semaphore, 0, 0) != 0) return 2;
  pthread_t threads[kThreads];
  for (long i = 0; i < kThreads; i++)
    if (pthread_create(&threads[i], NULL, wait_once, (void*)i) != 0) return 2;
  while (atomic_load(&waiting) < kThreads) usleep(1000);
  printf("pid %d\n", (int)getpid());
  fflush(stdout);
  char byte;
  if (read(0, &byte, 1) != 1) return 3;
  if (add(1, 1) != 2) return 4;
  atomic_store(&over, 1);
  if (write(gate[1], "x", 1) != 1 || sem_post(&semaphore) != 0) return 2;
  int status = 0;
  for (int i = 0; i < kThreads; i++) {
    void* wrong = NULL;
    pthread_join(threads[i], &wrong);
    if (wrong) status = 10 + i;
  }
  return status;
}
