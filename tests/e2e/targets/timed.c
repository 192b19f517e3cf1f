// Functions that know how long they take, fail, call themselves, or never end:
//   timed COUNT           so often each of those that return what they measured, in nanoseconds
//   timed fail COUNT
//   timed descend DEPTH
//   timed wide COUNT      so often around, with calls of widen in it
//   timed lines           at each line of its input, calls of add; at the line "block" one that waits
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fixture.h"

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

VISIBLE long thousand(void) {
  long sum = 0;
  for (int i = 0; i < kInner; i++) sum += tick() & 1;
  return sum;
}

VISIBLE long thousand_untraced(void) {
  const long begin = now();
  long sum = 0;
  for (int i = 0; i < kInner; i++) sum += untraced_tick() & 1;
  return now() - begin + (sum < 0);
}

VISIBLE long double widen(long double value) {
  return value + 1;
}

// Takes a tenth of a millisecond, and what the calls in it take.
VISIBLE long around(void) {
  long double sum = 0;
  for (int i = 0; i < 20; i++) sum += widen(i);
  const long begin = now();
  while (now() - begin < 100000) continue;
  return sum > 0;
}

VISIBLE int fail_if_odd(int value) {
  errno = ENOENT;
  return value % 2 ? -1 : value;
}

VISIBLE void* null_if_odd(long value) {
  return value % 2 ? NULL : &errno;
}

VISIBLE int block(char* line, int size) {
  puts("blocked");
  return fgets(line, size, stdin) != NULL;
}

static int lines(void) {
  char line[64];
  long sum = 0;
  setvbuf(stdout, NULL, _IOLBF, 0);
  printf("pid\n");
  while (fgets(line, sizeof line, stdin) != NULL) {
    if (strcmp(line, "block\n") == 0) {
      sum += block(line, sizeof line);
    } else {
      for (int i = 0; i < 100; i++) sum = add((int)(sum % 1000), i);
    }
    printf("done %d\n", sum >= 0);
  }
  return 0;
}

static void measure(int count) {
  long sum = 0;
  for (int i = 0; i < count; i++) {
    for (int ticks = 0; ticks < 20; ticks++) sum += tick() & 1;
    sum += hundred() + five() + thousand_untraced();
    if (i % 10 == 0) sum += thousand() & 1;
  }
  printf("done %d\n", sum > 0);
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "1";
  const int count = atoi(argv[argc - 1]);
  if (strcmp(what, "lines") == 0) return lines();
  if (strcmp(what, "wide") == 0) {
    long sum = 0;
    for (int i = 0; i < count; i++) sum += around();
    return sum != count;
  }
  if (strcmp(what, "descend") == 0) return descend(count) != count;
  if (strcmp(what, "fail") != 0) {
    measure(count);
    return 0;
  }
  int failed = 0;
  for (int i = 0; i < count; i++) failed += (fail_if_odd(i) < 0) + (null_if_odd(i) == NULL);
  return failed != count / 2 * 2;
}
