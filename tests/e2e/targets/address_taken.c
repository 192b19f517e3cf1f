/* `twice` is both called and compared as a pointer: with a GLOB_DAT slot there already, the linker makes its
   stub in .plt.got. */
#include "fixture.h"

int (*volatile chosen)(int);

int main(void) {
  chosen = twice;
  int good = twice(4) == 8;
  good &= chosen(5) == 10;
  good &= chosen == twice;
  return good ? 0 : 1;
}
