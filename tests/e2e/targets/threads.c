/* threads COUNT: four threads call work(thread, 1 ... COUNT) and check every result. */
#include <pthread.h>
#include <stdlib.h>

#include "fixture.h"

enum { kThreads = 4 };
static unsigned long count;

static void* loop(void* argument) {
  int thread = (int)(long)argument;
  for (unsigned long sequence = 1; sequence <= count; sequence++)
    if (work(thread, sequence) != sequence * 3 + (unsigned long)thread) return "wrong";
  return NULL;
}

int main(int argc, char** argv) {
  count = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
  pthread_t threads[kThreads];
  for (long i = 0; i < kThreads; i++)
    if (pthread_create(&threads[i], NULL, loop, (void*)i) != 0) return 2;
  int good = 1;
  for (int i = 0; i < kThreads; i++) {
    void* wrong = NULL;
    pthread_join(threads[i], &wrong);
    good &= wrong == NULL;
  }
  return good ? 0 : 1;
}
