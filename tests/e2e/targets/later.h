// For programs that are attached to before they begin.
#pragma once

#include <stdio.h>
#include <unistd.h>

// Prints "pid N", and waits for a line on standard input.
static void wait_for_a_line(void) {
  char byte = 0;
  printf("pid %d\n", (int)getpid());
  fflush(stdout);
  while (byte != '\n' && read(0, &byte, 1) == 1) {
  }
}
