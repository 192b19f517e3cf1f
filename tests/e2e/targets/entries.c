/* entries WHAT [N]: calls into the fixture library that -x is to see. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"

static int leaps(int count) {
  static jmp_buf here;
  static volatile int done;
  for (done = 0; done < count;) {
    if (setjmp(here) == 0) {
      leap(here, 1);
      return 1;
    }
    done = done + 1;
  }
  return done == count ? 0 : 1;
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  int count = argc > 2 ? atoi(argv[2]) : 1;
  if (strcmp(what, "nested") == 0) return outer(1) == 6 ? 0 : 1;
  if (strcmp(what, "descend") == 0) return descend(count) == count ? 0 : 1;
  if (strcmp(what, "tail") == 0) return tail_outer(1) == 20 && tail_outer(2) == 30 ? 0 : 1;
  if (strcmp(what, "alias") == 0) return alias_a(1) == 101 && alias_b(2) == 102 ? 0 : 1;
  if (strcmp(what, "leaps") == 0) return leaps(count);
  if (strcmp(what, "add") == 0) {
    int good = 1;
    for (int i = 0; i < count; i++) good &= add(i, 1) == i + 1;
    return good ? 0 : 1;
  }
  if (strcmp(what, "exit") == 0) return count;
  if (strcmp(what, "abort") == 0) {
    add(1, 1);
    abort();
  }
  fprintf(stderr, "entries: unknown word '%s'\n", what);
  return 99;
}
