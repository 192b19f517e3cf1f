/* A plugin whose work is done by static functions, with the names that compilers give to the parts they split
 * off. */
#define KEEP __attribute__((noipa, used))

static int isra(int value) __asm__("gc.isra.0");
static int constprop(int value) __asm__("gc.constprop.0");
static int part(int value) __asm__("gc.part.0");
static int cold(int value) __asm__("gc.cold");

KEEP static int isra(int value) {
  return value + 1;
}
KEEP static int constprop(int value) {
  return value + 2;
}
KEEP static int part(int value) {
  return value + 3;
}
KEEP static int cold(int value) {
  return value + 4;
}
KEEP static int garbage_collect(int value) {
  return value + 5;
}

int plugin_work(int value) {
  return isra(value) + constprop(value) + part(value) + cold(value) + garbage_collect(value) - 4 * value - 14;
}
