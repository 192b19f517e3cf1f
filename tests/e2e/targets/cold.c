/* A plugin whose plugin_work has a part that the compiler puts away as plugin_work.cold: every third call
   gets there, by a jump. */
#include <stdio.h>

__attribute__((cold, noipa)) static void rarely(int value) {
  static volatile int seen __attribute__((used));
  seen = value;
}

__attribute__((noipa)) static int usually(int value) {
  return value + 3;
}

int plugin_work(int value) {
  if (__builtin_expect(value % 3 == 0, 0)) {
    rarely(value);
    rarely(value + 1);
    return value + 3;
  }
  return usually(value);
}
