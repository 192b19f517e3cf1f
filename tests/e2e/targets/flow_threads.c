/* flow_threads WAY COUNT: threads that come, go, and end in the middle of counted calls. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "counted.h"

static atomic_int wrong, cleaned, started, ended;

static int visit_work(void* value) {
  return visit((int)(long)value);
}

static void* short_life(void* value) {
  if (through(visit_work, value) != (int)(long)value + 1) ++wrong;
  ++ended;
  return value;
}

/* One after the other, half of them detached: nobody waits for those. */
static int storm(int count) {
  pthread_attr_t detached;
  pthread_attr_init(&detached);
  pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
  for (long i = 0; i < count; ++i) {
    pthread_t thread;
    void* result = NULL;
    if (pthread_create(&thread, i % 2 == 0 ? NULL : &detached, short_life, (void*)i) != 0) return 2;
    if (i % 2 == 0 && (pthread_join(thread, &result) != 0 || result != (void*)i)) return 3;
  }
  while (ended < count) usleep(1000);
  return wrong != 0;
}

enum { kCrowd = 200 };
static pthread_barrier_t barrier;

static int meet(void* unused) {
  (void)unused;
  pthread_barrier_wait(&barrier);
  return visit(1);
}

static void* one_of_many(void* rounds) {
  for (int i = 0; i < (int)(long)rounds; ++i)
    if (through(meet, NULL) != 2) ++wrong;
  return NULL;
}

/* All inside a counted call at once. */
static int crowd(int count) {
  pthread_t threads[kCrowd];
  pthread_barrier_init(&barrier, NULL, kCrowd);
  for (int i = 0; i < kCrowd; ++i)
    if (pthread_create(&threads[i], NULL, one_of_many, (void*)(long)count) != 0) return 2;
  for (int i = 0; i < kCrowd; ++i) pthread_join(threads[i], NULL);
  return wrong != 0;
}

static void clean(void* unused) {
  (void)unused;
  visit(3);
  ++cleaned;
}

/* Ends of threads: at a cancellation point, anywhere, and by pthread_exit, each under three counted calls. */
static int sleep_there(void* unused) {
  (void)unused;
  ++started;
  while (started != 0) pause();
  return 0;
}

static int spin_there(void* unused) {
  int before;
  (void)unused;
  pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &before);
  ++started;
  while (started != 0) {
  }
  return 0;
}

static int exit_there(void* value) {
  visit(2);
  pthread_exit(value);
}

static int inner_call(void* work) {
  int result = 0;
  pthread_cleanup_push(clean, NULL);
  result = through((counted_work)work, (void*)5L);
  pthread_cleanup_pop(1);
  return result;
}

static int outer_call(void* work) {
  return through(inner_call, work);
}

static void* ends_within(void* work) {
  through(outer_call, work);
  ++wrong;
  return NULL;
}

static int end_threads(int count, counted_work work, int cancel) {
  for (int i = 0; i < count; ++i) {
    pthread_t thread;
    void* result = NULL;
    if (pthread_create(&thread, NULL, ends_within, (void*)work) != 0) return 2;
    while (cancel && started <= i) usleep(100);
    if (cancel && pthread_cancel(thread) != 0) return 3;
    if (pthread_join(thread, &result) != 0 || result != (cancel ? PTHREAD_CANCELED : (void*)5L)) return 4;
  }
  printf("cleaned %d\n", cleaned);
  return wrong != 0;
}

static int cancels(int count) {
  return end_threads(count, sleep_there, 1);
}
static int asynchronous(int count) {
  return end_threads(count, spin_there, 1);
}
static int exits(int count) {
  return end_threads(count, exit_there, 0);
}

int main(int argc, char** argv) {
  static const struct counted_way ways[] = {{"storm", storm},     {"crowd", crowd},
                                            {"cancels", cancels}, {"asynchronous", asynchronous},
                                            {"exits", exits},     {NULL, NULL}};
  return counted_main(argc, argv, ways);
}
