/* `chosen` is an IFUNC that others import, `local_chosen` one of this object's own; plugin_work calls both.
 */
#include "ifunc.h"

__attribute__((noipa)) static int plain(int value) {
  return value + 7;
}
__attribute__((noipa)) static int local_plain(int value) {
  return value + 8;
}
static int (*resolve_chosen(void))(int) {
  return plain;
}
static int (*resolve_local(void))(int) {
  return local_plain;
}
int chosen(int) __attribute__((ifunc("resolve_chosen")));
static int local_chosen(int) __attribute__((ifunc("resolve_local")));

int plugin_work(int value) {
  int sum = chosen(value);
  sum += local_chosen(value);
  return sum;
}
