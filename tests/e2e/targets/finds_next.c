/* finds_next N: asks find_next() of its library for labs() N times, says how often that was found. */
#include <stdio.h>
#include <stdlib.h>

void* find_next(const char* name);

int main(int argc, char** argv) {
  long found = 0;
  for (long i = argc > 1 ? atol(argv[1]) : 1; i > 0; i--) found += find_next("labs") != NULL;
  printf("%ld\n", found);
  return 0;
}
