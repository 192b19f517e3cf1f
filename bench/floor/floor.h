/* What the floor programs share. Each repeats its unit until its budget of time is used up, prints one line
   of JSON with the nanoseconds of one unit, by the clock on the wall and in time of the processors (which
   other load on the machine hardly changes), and ends by itself: an alarm ends it where the machine is too
   loaded for that. */
#pragma once

#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { kBudgetMs = 200, kPatienceSeconds = 20, kMostRounds = 1000000 };

static inline uint64_t read_clock(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

static inline uint64_t now_ns(void) {
  return read_clock(CLOCK_MONOTONIC);
}

static inline uint64_t cpu_ns(void) {
  return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

static inline void fail(const char* what) {
  perror(what);
  exit(1);
}

static inline void pin_to(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) fail("sched_setaffinity");
}

/* The first and the last core that we may run on: the first is the one that most interrupts go to. */
struct Cores {
  int first, last;
};

static inline struct Cores allowed_cores(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) fail("sched_getaffinity");
  struct Cores cores = {-1, -1};
  for (int core = 0; core < CPU_SETSIZE; core++) {
    if (!CPU_ISSET(core, &set)) continue;
    if (cores.first < 0) cores.first = core;
    cores.last = core;
  }
  return cores;
}

/* The budget: FLOOR_BUDGET_MS in the environment, at most the alarm's time. */
static inline uint64_t budget_ns(void) {
  const char* text = getenv("FLOOR_BUDGET_MS");
  long ms = text != NULL ? atol(text) : kBudgetMs;
  if (ms < 1 || ms > kPatienceSeconds * 1000 / 2) ms = kBudgetMs;
  return (uint64_t)ms * 1000000U;
}

static inline void begin(void) {
  alarm(kPatienceSeconds);
}

static inline void report(const char* what, double ns, double cpu, uint64_t rounds) {
  printf("{\"what\": \"%s\", \"ns\": %.3f, \"cpu_ns\": %.3f, \"rounds\": %llu}\n", what, ns, cpu,
         (unsigned long long)rounds);
}
