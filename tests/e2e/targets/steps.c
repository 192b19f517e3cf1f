/* steps COUNT: so many calls of add, and two more step by step (EFLAGS.TF, Intel SDM volume 3, 18.3.1.4),
   with a handler of SIGTRAP that counts the steps. Ends with 0 if there were some, and results are what they
   are. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>

#include "fixture.h"

static volatile int steps;

static void handler(int number) {
  (void)number;
  ++steps;
}

/* Below the red zone, which the compiler may use. */
#define CHANGE_FLAGS(what)                                                                     \
  __asm__ volatile("sub $128, %%rsp\n pushfq\n " what ", (%%rsp)\n popfq\n add $128, %%rsp" :: \
                       : "memory", "cc")

int main(int argc, char** argv) {
  const int count = argc > 1 ? atoi(argv[1]) : 0;
  struct sigaction action = {.sa_handler = handler};
  int sum = 0;
  if (sigaction(SIGTRAP, &action, NULL) != 0) return 1;
  for (int i = 0; i < count; ++i) sum = add(sum, 1);
  CHANGE_FLAGS("orl $0x100");
  sum = add(sum, 2);
  sum = add(sum, 3);
  CHANGE_FLAGS("andl $~0x100");
  if (sum != count + 5) return 2;
  return steps > 10 ? 0 : 3;
}
