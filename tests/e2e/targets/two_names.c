/* two_names ROUNDS: calls functions of the C library that have two names each, by either; through GOT slots
   where it is built so. A round: strtol 1, strtoll 3 (one of them a tail call), memcpy 2, memmove 1. */
#include <stdlib.h>
#include <string.h>

static char here[64], there[64] = "there";
static volatile size_t size = 7;
static volatile long long sum;

__attribute__((noinline)) static long long as_tail(const char* text) {
  return strtoll(text, 0, 8);
}

static int number(const char* digits) {  // atoi() is one more strtol()
  int found = 0;
  for (; *digits; digits++) found = 10 * found + (*digits - '0');
  return found;
}

int main(int argc, char** argv) {
  for (int round = argc > 1 ? number(argv[1]) : 1; round > 0; round--) {
    sum += strtol("1", 0, 10) + strtoll("2", 0, 10) + strtoll("3", 0, 10) + as_tail("4");
    memcpy(here, there, size);
    memmove(here + 1, here, size);
    memcpy(there, here, size);
  }
  return 0;
}
