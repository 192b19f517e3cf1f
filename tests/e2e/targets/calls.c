/* One program for every way of linking a call. Exit status 0 when all results are right. */
#include "fixture.h"

int main(void) {
  int good = add(1, 2) == 3;
  good &= add(-3, 40000) == 39997;
  good &= greet("hello") == 5;
  good &= twice(21) == 42;
  return good ? 0 : 1;
}
