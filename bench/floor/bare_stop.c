/* bare_stop 1|2: what one stop at a breakpoint costs, with tracer and tracee on one core or on two. */
#include "stops.h"

static void body(void) {
  __asm__ volatile("int3");
}

int main(int argc, char** argv) {
  return measure_stops(argc, argv, "bare_stop", body, 1);
}
