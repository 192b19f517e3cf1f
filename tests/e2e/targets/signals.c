/* signals COUNT: sends itself SIGUSR1 COUNT times around calls of add; each must come once, and the handler's
   own call must work. */
#include <signal.h>
#include <stdlib.h>

#include "fixture.h"

static volatile int handled;

static void handler(int number) {
  if (number == SIGUSR1) handled = add(handled, 1);
}

int main(int argc, char** argv) {
  int count = argc > 1 ? atoi(argv[1]) : 0;
  struct sigaction action = {.sa_handler = handler};
  sigaction(SIGUSR1, &action, NULL);
  int good = 1;
  for (int i = 0; i < count; i++) {
    good &= twice(i) == 2 * i;
    raise(SIGUSR1);
  }
  return good && handled == count ? 0 : 1;
}
