/* waits COUNT [LENGTH]: for each line on standard input calls add(0 ... COUNT-1, 1), and says "done"; with
   LENGTH it calls greet with a string of that length instead. Ends with the input. The read between the lines
   must never be seen to fail. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fixture.h"

static int call(int number, int length) {
  static char text[8192];
  if (length == 0) return add(number, 1) == number + 1;
  memset(text, 'x', (size_t)length);
  return greet(text) == length;
}

int main(int argc, char** argv) {
  int count = argc > 1 ? atoi(argv[1]) : 0;
  int length = argc > 2 ? atoi(argv[2]) : 0;
  if (length > 8000) return 99;
  printf("pid %d\n", (int)getpid());
  fflush(stdout);
  for (;;) {
    char byte;
    ssize_t got = read(0, &byte, 1);
    if (got == 0) return 0;
    if (got < 0) return 2;
    if (byte != '\n') continue;
    for (int i = 0; i < count; i++)
      if (!call(i, length)) return 3;
    puts("done");
    fflush(stdout);
  }
}
