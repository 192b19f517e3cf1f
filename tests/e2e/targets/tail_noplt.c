/* Built with -fno-plt and -O2: `last` ends in jmp *twice@GOTPCREL(%rip). */
#include "fixture.h"

__attribute__((noipa)) static int last(int value) {
  return twice(value + 1);
}

int main(void) {
  int good = last(1) == 4;
  good &= last(2) == 6;
  return good ? 0 : 1;
}
