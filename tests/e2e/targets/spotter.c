/* Calls libspot.so. Only where the program or the library has debug information are the arguments known. */
#include "spot.h"

int main(void) {
  struct spot where = {1, 2};
  return spot_find("home", &where) == 'h' + 1 ? 0 : 1;
}
