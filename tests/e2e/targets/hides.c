/* hides: waits for a line on standard input, is not dumpable from then on, and calls greet three times. */
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "fixture.h"

int main(void) {
  printf("pid %d\n", (int)getpid());
  fflush(stdout);
  if (getchar() == EOF || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) return 1;
  for (int i = 0; i < 3; i++)
    if (greet("hidden") != 6) return 2;
  return 0;
}
