/* ifunc_user ROUNDS: for each round one call of `chosen`, one of plugin_work (which calls `chosen` and
   `local_chosen`), and one each of strlen and memcpy of the C library, IFUNCs as well. */
#include "ifunc.h"

#include <stdlib.h>
#include <string.h>

int main(int argc, char** argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 0, good = rounds > 0;
  char text[256];
  memset(text, 'x', sizeof text);
  for (int i = 1; i <= rounds; i++) {
    good &= chosen(i) == i + 7;
    good &= plugin_work(i) == 2 * i + 15;
    char copy[256] = "";
    volatile size_t size = 100 + (size_t)i % 100;
    memcpy(copy, text, size);
    good &= strlen(copy) == size;
  }
  return good ? 0 : 1;
}
