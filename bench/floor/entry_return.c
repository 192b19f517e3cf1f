/* entry_return 1|2: what a call costs that is stopped at its entry and at its return, with tracer and tracee
   on one core or on two. */
#include "stops.h"

__attribute__((noipa)) static int function(int a, int b) {
  __asm__ volatile("int3");
  return a + b;
}

static void body(void) {
  int sum = function(1, 2);
  __asm__ volatile("" : : "r"(sum));
  __asm__ volatile("int3");
}

int main(int argc, char** argv) {
  return measure_stops(argc, argv, "entry_return", body, 2);
}
