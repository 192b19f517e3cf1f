/* rdtsc: what a pair of readings of the time stamp counter costs, as at the entry and at the exit of a call.
 */
#include <x86intrin.h>

#include "floor.h"

int main(void) {
  begin();
  struct Cores cores = allowed_cores();
  pin_to(cores.last);
  uint64_t cpu = cpu_ns(), rounds = 0, sum = 0;
  uint64_t started = now_ns(), end = started + budget_ns(), now = started;
  for (; now < end; now = now_ns()) {
    for (int i = 0; i < 1000; i++) {
      uint64_t entry = __rdtsc();
      sum += __rdtsc() - entry;
    }
    rounds += 1000;
  }
  __asm__ volatile("" : : "r"(sum));
  report("rdtsc_pair", (double)(now - started) / (double)rounds, (double)(cpu_ns() - cpu) / (double)rounds,
         rounds);
  return 0;
}
