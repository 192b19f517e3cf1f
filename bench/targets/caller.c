/* caller FUNCTION CALLS [THREADS [hold | bursts]]: calls FUNCTION so often in each of so many threads.
   FUNCTION is `two`, `text` or `thirty` (a text of 30 bytes), of libwork, `free`, of the C library and
   of nothing, or `getppid`, which is a system call. Prints pid PID begin NANOSECONDS end NANOSECONDS on
   CLOCK_MONOTONIC, about the calls alone. With `hold` it waits for a line or the end of its input before the
   calls, and again at its end. With `bursts` it does something else for a while after each thousand calls,
   and prints bursts NANOSECONDS too: what its main thread's calls took of its processor time, were all bursts
   as the one in the middle. Memory that is touched for the first time, and whatever else runs on the machine,
   make some of them longer. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "work.h"

enum { kMostThreads = 64, kBurst = 1000 };

static pthread_barrier_t start;
static const char* function;
static long calls;
static void* volatile nothing;

static void call(long from, long to) {
  int kept = 0;
  if (strcmp(function, "two") == 0)
    for (long i = from; i < to; i++) kept = work_two((int)i, 2);
  else if (strcmp(function, "text") == 0)
    for (long i = from; i < to; i++) kept = work_text((int)i, 2, "seventeen letters");
  else if (strcmp(function, "thirty") == 0)
    for (long i = from; i < to; i++) kept = work_text((int)i, 2, "thirty bytes with all of these");
  else if (strcmp(function, "free") == 0)
    for (long i = from; i < to; i++) free(nothing);
  else
    for (long i = from; i < to; i++) kept = (int)syscall(SYS_getppid);
  __asm__ volatile("" : : "r"(kept));
}

static void* loop(void* unused) {
  (void)unused;
  pthread_barrier_wait(&start);
  call(0, calls);
  return NULL;
}

static long long time_by(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (long long)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void tell(const char* what, long long nanoseconds) {
  printf("%s %lld\n", what, nanoseconds);
  fflush(stdout);
}

static int compare(const void* one, const void* other) {
  const long long a = *(const long long*)one, b = *(const long long*)other;
  return (a > b) - (a < b);
}

/* Whoever reads what is recorded has time for it between two of them. The thread is busy meanwhile, as
   programs are that matter here: one that sleeps finds caches, page tables and predictions of branches cold,
   at a cost of its own. */
static void call_in_bursts(void) {
  const long long rest = 10 * 1000 * 1000;
  const long bursts = calls / kBurst;
  long long* took = calloc((size_t)bursts, sizeof *took);
  if (took == NULL) exit(2);
  for (long i = 0; i < bursts; i++) {
    long long begin = time_by(CLOCK_THREAD_CPUTIME_ID);
    call(i * kBurst, (i + 1) * kBurst);
    took[i] = time_by(CLOCK_THREAD_CPUTIME_ID) - begin;
    for (long long until = time_by(CLOCK_MONOTONIC) + rest; time_by(CLOCK_MONOTONIC) < until;)
      __builtin_ia32_pause();
  }
  qsort(took, (size_t)bursts, sizeof *took, compare);
  if (bursts > 0) tell("bursts", took[bursts / 2] * bursts);
  free(took);
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  function = argv[1];
  calls = atol(argv[2]);
  int threads = argc > 3 ? atoi(argv[3]) : 1;
  int hold = argc > 4 && strcmp(argv[4], "hold") == 0, bursts = argc > 4 && strcmp(argv[4], "bursts") == 0;
  if (threads < 1 || threads > kMostThreads || (bursts && (threads > 1 || calls % kBurst != 0))) return 2;
  pthread_t made[kMostThreads];
  pthread_barrier_init(&start, NULL, (unsigned)threads);
  printf("pid %d\n", (int)getpid());
  fflush(stdout);
  if (hold) (void)!getchar();
  /* The main thread is one of them. */
  tell("begin", time_by(CLOCK_MONOTONIC));
  for (int i = 1; i < threads; i++)
    if (pthread_create(&made[i], NULL, loop, NULL) != 0) return 2;
  if (bursts)
    call_in_bursts();
  else
    loop(NULL);
  for (int i = 1; i < threads; i++) pthread_join(made[i], NULL);
  tell("end", time_by(CLOCK_MONOTONIC));
  if (hold) (void)!getchar();
  return 0;
}
