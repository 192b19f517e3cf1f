/* gaps THREADS [LIBRARY]: threads that look at the clock every 50 microseconds, with LIBRARY mapped. For each
   line of its input it prints `gap NANOSECONDS`: the longest time, since the line before, for which one of
   the threads has not looked. They sleep in between, so that it is not the scheduler's turns that are
   measured where threads are more than cores. With 0 for THREADS the first thread itself looks, and another
   one reads the input. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static _Atomic uint64_t longest;

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

static void* watch(void* unused) {
  (void)unused;
  prctl(PR_SET_TIMERSLACK, 1000UL, 0, 0, 0);
  const struct timespec nap = {0, 50000};
  for (uint64_t before = now_ns();;) {
    clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
    uint64_t now = now_ns(), seen = atomic_load(&longest);
    while (now - before > seen && !atomic_compare_exchange_weak(&longest, &seen, now - before)) continue;
    before = now;
  }
  return NULL;
}

static void* answer(void* unused) {
  (void)unused;
  for (int c = getchar(); c != EOF; c = getchar()) {
    if (c != '\n') continue;
    printf("gap %llu\n", (unsigned long long)atomic_exchange(&longest, 0));
    fflush(stdout);
  }
  exit(0);
}

int main(int argc, char** argv) {
  int threads = argc > 1 ? atoi(argv[1]) : 4;
  if (argc > 2 && dlopen(argv[2], RTLD_NOW) == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 2;
  }
  pthread_t made;
  for (int i = 0; i < threads; i++)
    if (pthread_create(&made, NULL, watch, NULL) != 0) return 2;
  if (threads == 0 && pthread_create(&made, NULL, answer, NULL) != 0) return 2;
  printf("pid %d\n", (int)getpid());
  fflush(stdout);
  (threads == 0 ? watch : answer)(NULL);
}
