/* nest COUNT: so many calls of out(), which calls mid(), which calls leaf(), of which no debug information
 * tells. */
#include <stdlib.h>

#define KEPT __attribute__((noinline))

int leaf(int a);
__asm__(
    ".text\n.globl leaf\n.type leaf,@function\n"
    "leaf: mov $200, %ecx\n1: dec %ecx\njnz 1b\nlea (%rdi,%rdi,2), %eax\nret\n"
    ".size leaf, .-leaf\n");

KEPT int mid(int a) {
  const int result = leaf(a);
  __asm__ volatile("");
  return result;
}

KEPT int out(int a) {
  const int result = mid(a);
  __asm__ volatile("");
  return result;
}

int main(int argc, char** argv) {
  const int count = argc > 1 ? atoi(argv[1]) : 1;
  for (int i = 0; i < count; i++)
    if (out(i) != 3 * i) return 1;
  return 0;
}
