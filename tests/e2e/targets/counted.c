#include "counted.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Keeps a call from becoming a jump: something is left to do after it. */
#define AFTER_THE_CALL() __asm__ volatile("" ::: "memory")

enum { kVisit, kThrough, kDescend, kFirst, kMiddle, kLast, kTailWork, kFunctions };
static const char* const names[kFunctions] = {
    "visit",          "through",      "counted_descend",  "counted_first",
    "counted_middle", "counted_last", "counted_tail_work"};
static atomic_ulong entered[kFunctions], returned[kFunctions];

static void count(atomic_ulong* counter) {
  atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

__attribute__((noipa)) int visit(int value) {
  count(&entered[kVisit]);
  count(&returned[kVisit]);
  return value + 1;
}

__attribute__((noipa)) int through(counted_work work, void* argument) {
  count(&entered[kThrough]);
  int result = work(argument);
  count(&returned[kThrough]);
  return result;
}

__attribute__((noipa)) int counted_descend(int depth) {
  count(&entered[kDescend]);
  int result = depth == 0 ? 0 : counted_descend(depth - 1) + 1;
  AFTER_THE_CALL();
  count(&returned[kDescend]);
  return result;
}

__attribute__((noipa)) int counted_last(int value) {
  count(&entered[kLast]);
  count(&returned[kLast]);
  return value * 2;
}

/* What they jump to returns for sure: they may count that in advance. */
__attribute__((noipa)) int counted_middle(int value) {
  count(&entered[kMiddle]);
  count(&returned[kMiddle]);
  return counted_last(value + 1);
}

__attribute__((noipa)) int counted_first(int value) {
  count(&entered[kFirst]);
  count(&returned[kFirst]);
  return counted_middle(value + 1);
}

/* Returns when `work` does, which it cannot see; no way lets it return. */
__attribute__((noipa)) int counted_tail_work(counted_work work, void* argument) {
  count(&entered[kTailWork]);
  return work(argument);
}

static void report(void) {
  for (int i = 0; i < kFunctions; ++i)
    if (entered[i] != 0)
      printf("%s %lu %lu\n", names[i], (unsigned long)entered[i], (unsigned long)returned[i]);
  fflush(stdout);
}

int counted_main(int argc, char** argv, const struct counted_way* ways) {
  char line[16];
  printf("pid %d\n", getpid());
  fflush(stdout);
  if (read(STDIN_FILENO, line, sizeof line) < 0) return 98;
  for (; argc > 2 && ways->name != NULL; ++ways)
    if (strcmp(ways->name, argv[1]) == 0) {
      int status = ways->run(atoi(argv[2]));
      report();
      return status;
    }
  fprintf(stderr, "%s: WAY COUNT expected\n", argv[0]);
  return 99;
}
