/* firsts ROUNDS: calls every function of firsts.S and checks its result. */
#include <stdio.h>
#include <stdlib.h>

typedef long (*First)(long, long);
long call_first(First, long, long);

#define FIRST(name, result) long first_##name(long, long);
#include "firsts.inc"
#undef FIRST

static int check(const char* name, long is, long expected) {
  if (is == expected) return 0;
  fprintf(stderr, "first_%s: %ld instead of %ld\n", name, is, expected);
  return 1;
}

int main(int argc, char** argv) {
  int wrong = 0;
  for (long a = 1; argc > 1 && a <= atoi(argv[1]); a++) {
    long b = a * 3;
#define FIRST(name, result) wrong += check(#name, call_first(first_##name, a, b), result);
#include "firsts.inc"
#undef FIRST
  }
  return wrong != 0 || argc < 2;
}
