/* numbered: four threads call add(thread, 1), add(thread, 2) and so on while a timer's signal comes a
   thousand times a second, until the standard input ends. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "fixture.h"

enum { kThreads = 4, kPause = 100, kInterval = 1000 }; /* us */

static void on_alarm(int number) {
  (void)number;
}

static void* call(void* argument) {
  const int thread = *(const int*)argument;
  for (int i = 1;; i++) {
    if (add(thread, i) != thread + i) _exit(1);
    usleep(kPause);
  }
}

static void* wait_for_the_end(void* unused) {
  char byte;
  while (read(0, &byte, 1) > 0) continue;
  (void)unused;
  _exit(0);
}

int main(void) {
  static int numbers[kThreads];
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_alarm;
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, NULL);
  const struct itimerval interval = {{0, kInterval}, {0, kInterval}};
  setitimer(ITIMER_REAL, &interval, NULL);
  pthread_t thread;
  if (pthread_create(&thread, NULL, wait_for_the_end, NULL) != 0) return 1;
  for (int i = 1; i < kThreads; i++) {
    numbers[i] = i;
    if (pthread_create(&thread, NULL, call, &numbers[i]) != 0) return 1;
  }
  printf("pid %d\n", (int)getpid());
  fflush(stdout);
  call(&numbers[0]);
}
