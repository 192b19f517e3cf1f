/* waits COUNT: for each line on standard input calls add(0 ... COUNT-1, 1), and says "done". Ends with the
   input. The read between the lines must never be seen to fail. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "fixture.h"

int main(int argc, char** argv) {
  int count = argc > 1 ? atoi(argv[1]) : 0;
  printf("pid %d\n", (int)getpid());
  fflush(stdout);
  for (;;) {
    char byte;
    ssize_t got = read(0, &byte, 1);
    if (got == 0) return 0;
    if (got < 0) return 2;
    if (byte != '\n') continue;
    for (int i = 0; i < count; i++)
      if (add(i, 1) != i + 1) return 3;
    puts("done");
    fflush(stdout);
  }
}
