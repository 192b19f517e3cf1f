#include "fixture.h"

#include <string.h>

/* Keeps a call from becoming a jump: something is left to do after it. */
#define AFTER_THE_CALL() __asm__ volatile("" ::: "memory")

int add(int a, int b) {
  return a + b;
}

int twice(int value) {
  return 2 * value;
}

int greet(const char* who) {
  return (int)strlen(who);
}

int inner(int value) {
  return value + 1;
}

int middle(int value) {
  int result = inner(value + 1);
  AFTER_THE_CALL();
  return result + 1;
}

int outer(int value) {
  int result = middle(value + 1);
  AFTER_THE_CALL();
  return result + 1;
}

__attribute__((noipa)) int descend(int depth) {
  int result = depth == 0 ? 0 : descend(depth - 1) + 1;
  AFTER_THE_CALL();
  return result;
}

__attribute__((noipa)) int tail_inner(int value) {
  return value * 10;
}

__attribute__((noipa)) int tail_outer(int value) {
  return tail_inner(value + 1);
}

__attribute__((noipa)) int alias_a(int value) {
  return value + 100;
}

int alias_b(int value) __attribute__((alias("alias_a")));

void leap(jmp_buf where, int value) {
  longjmp(where, value);
}

unsigned long work(int thread, unsigned long sequence) {
  return sequence * 3 + (unsigned long)thread;
}
