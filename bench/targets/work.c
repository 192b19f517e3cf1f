#include "work.h"

int work_two(int a, int b) {
  return a + b;
}

int work_text(int a, int b, const char* text) {
  return a + b + text[0];
}

int work_unused(int a) {
  return a;
}
