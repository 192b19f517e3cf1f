/* in_handler COUNT: waits for a line inside of its handler for SIGTRAP, then calls add() so often outside of
   it. It ends with status 0 if SIGTRAP is not blocked then, and runs the handler once more. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "fixture.h"

static atomic_int runs;

static void wait_first_time(int number) {
  char line;
  (void)number;
  if (atomic_fetch_add(&runs, 1) > 0) return;
  (void)!write(1, "inside\n", 7);
  (void)!read(0, &line, 1);
}

int main(int argc, char** argv) {
  struct sigaction action = {.sa_handler = wait_first_time};
  if (argc < 2 || sigaction(SIGTRAP, &action, NULL) != 0) return 2;
  raise(SIGTRAP);
  for (int i = 0; i < atoi(argv[1]); i++)
    if (add(i, 1) != i + 1) return 3;
  sigset_t mask;
  if (sigprocmask(SIG_BLOCK, NULL, &mask) != 0 || sigismember(&mask, SIGTRAP)) return 4;
  raise(SIGTRAP);
  return atomic_load(&runs) == 2 ? 0 : 5;
}
