/* Built with -fno-plt: a tail call, and behind it a call that another object makes with the very same stack
   pointer. Calls add itself ten times, by its address; argument: how often the others are called. */
#include <stdio.h>
#include <stdlib.h>

#include "fixture.h"

int other_caller(int value);

static int (*volatile address)(int, int) = NULL;

__attribute__((noipa)) static int jumps(int value) {
  return twice(value);
}

__attribute__((noipa)) static int through(int value) {
  int result = jumps(value);
  __asm__ volatile("" ::: "memory");
  return result;
}

int main(int argc, char** argv) {
  long sum = 0;
  address = add;
  for (int i = 0; i < 10; i++) sum += address(i, 1);
  for (int i = 0; i < (argc > 1 ? atoi(argv[1]) : 0); i++) sum += through(i) - other_caller(2 * i) + 1;
  printf("%ld\n", sum);
  return sum == 55 ? 0 : 1;
}
