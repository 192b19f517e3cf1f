// Functions that know how long they take: timed COUNT. Each returns, in nanoseconds, what it measured itself.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define VISIBLE __attribute__((noinline, visibility("default")))

enum { kInner = 1000 };

static long now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000 + time.tv_nsec;
}

// Reading the clock takes some twenty nanoseconds.
VISIBLE long tick(void) {
  return now();
}

// The same, which nobody traces.
static __attribute__((noinline)) long untraced_tick(void) {
  __asm__ volatile("");
  return now();
}

VISIBLE long hundred(void) {
  const long begin = now();
  long end = begin;
  while (end - begin < 100000) end = now();
  return end - begin;
}

VISIBLE long five(void) {
  const long begin = now();
  const struct timespec pause = {0, 5000000};
  nanosleep(&pause, NULL);
  return now() - begin;
}

VISIBLE long outer(void) {
  long sum = 0;
  for (int i = 0; i < kInner; i++) sum += tick() & 1;
  return sum;
}

VISIBLE long outer_untraced(void) {
  const long begin = now();
  long sum = 0;
  for (int i = 0; i < kInner; i++) sum += untraced_tick() & 1;
  return now() - begin + (sum < 0);
}

int main(int argc, char** argv) {
  const int count = argc > 1 ? atoi(argv[1]) : 1;
  long sum = 0;
  for (int i = 0; i < count; i++) {
    for (int ticks = 0; ticks < 20; ticks++) sum += tick() & 1;
    sum += hundred() + five() + outer_untraced();
    if (i % 10 == 0) sum += outer() & 1;
  }
  printf("done %d\n", sum > 0);
  return 0;
}
