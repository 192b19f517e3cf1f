/* A plugin that takes the address of what it calls: through the pointer, and through the same GOT slot. */
#include "fixture.h"

static int (*volatile kept)(int);

int plugin_work(int value) {
  kept = twice;
  int result = twice(value);
  __asm__ volatile("" ::: "memory");
  return result - value + 1000;
}

/* Calls add as deep in the stack as targets/crossing.c jumps to twice. */
__attribute__((noipa)) int other_caller(int value) {
  int result = add(value, 1);
  __asm__ volatile("" ::: "memory");
  return result;
}
