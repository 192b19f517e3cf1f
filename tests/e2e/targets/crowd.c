/* crowd CALLERS THREADS: makes so many threads, one after the other, each of which calls llabs() with its own
 * number, from 1, beside so many that call labs() all the time, and getcontext() now and then. Prints how
 * many calls these made meanwhile, of each thread that was made. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

enum { kMost = 64, kFirst = 20000, kOften = 256 };

static atomic_int ended;
static atomic_long calls[kMost];

static void* call(void* own) {
  long wrong = 0;
  for (long i = 0; !atomic_load(&ended); i++) {
    wrong += labs(-i) != i;
    if (i % kOften == 0) {
      ucontext_t here;
      wrong += getcontext(&here) != 0;
    }
    atomic_fetch_add_explicit((atomic_long*)own, 1, memory_order_relaxed);
  }
  return wrong == 0 ? NULL : own;
}

static void* call_once(void* number) {
  return llabs(*(int*)number) == *(int*)number ? NULL : number;
}

static long all(int callers) {
  long sum = 0;
  for (int i = 0; i < callers; i++) sum += atomic_load(&calls[i]);
  return sum;
}

int main(int argc, char** argv) {
  const int callers = argc > 2 ? atoi(argv[1]) : 0, threads = argc > 2 ? atoi(argv[2]) : 0;
  pthread_t caller[kMost];
  if (callers < 1 || callers > kMost || threads < 1) return 2;
  for (int i = 0; i < callers; i++)
    if (pthread_create(&caller[i], NULL, call, &calls[i]) != 0) return 2;
  for (int i = 0; i < callers; i++)
    while (atomic_load(&calls[i]) < kFirst) sched_yield();
  const long before = all(callers);
  for (int i = 0; i < threads; i++) {
    pthread_t thread;
    int number = i + 1;
    void* wrong = NULL;
    if (pthread_create(&thread, NULL, call_once, &number) != 0 || pthread_join(thread, &wrong) != 0) return 2;
    if (wrong != NULL) return 1;
  }
  printf("%ld\n", (all(callers) - before) / threads);
  atomic_store(&ended, 1);
  int status = 0;
  for (int i = 0; i < callers; i++) {
    void* wrong = NULL;
    pthread_join(caller[i], &wrong);
    status |= wrong != NULL;
  }
  return status;
}
