/* caller FUNCTION CALLS [THREADS [hold]]: calls FUNCTION so often in each of so many threads. FUNCTION is
   `two` or `text`, of libwork, or `getppid`, which is a system call. Prints pid PID begin NANOSECONDS end
   NANOSECONDS on CLOCK_MONOTONIC, about the calls alone. With `hold` it waits for a line or the end of its
   input before the calls, and again at its end. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "work.h"

enum { kMostThreads = 64 };

static pthread_barrier_t start;
static const char* function;
static long calls;

static void* loop(void* unused) {
  (void)unused;
  int kept = 0;
  pthread_barrier_wait(&start);
  if (strcmp(function, "two") == 0)
    for (long i = 0; i < calls; i++) kept = work_two((int)i, 2);
  else if (strcmp(function, "text") == 0)
    for (long i = 0; i < calls; i++) kept = work_text((int)i, 2, "seventeen letters");
  else
    for (long i = 0; i < calls; i++) kept = (int)syscall(SYS_getppid);
  __asm__ volatile("" : : "r"(kept));
  return NULL;
}

static void tell_time(const char* what) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  printf("%s %lld\n", what, (long long)now.tv_sec * 1000000000 + now.tv_nsec);
  fflush(stdout);
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  function = argv[1];
  calls = atol(argv[2]);
  int threads = argc > 3 ? atoi(argv[3]) : 1;
  int hold = argc > 4 && strcmp(argv[4], "hold") == 0;
  if (threads < 1 || threads > kMostThreads) return 2;
  pthread_t made[kMostThreads];
  pthread_barrier_init(&start, NULL, (unsigned)threads);
  printf("pid %d\n", (int)getpid());
  fflush(stdout);
  if (hold) (void)!getchar();
  /* The main thread is one of them. */
  tell_time("begin");
  for (int i = 1; i < threads; i++)
    if (pthread_create(&made[i], NULL, loop, NULL) != 0) return 2;
  loop(NULL);
  for (int i = 1; i < threads; i++) pthread_join(made[i], NULL);
  tell_time("end");
  if (hold) (void)!getchar();
  return 0;
}
