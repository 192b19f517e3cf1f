/* trampoline count|records|summary [bursts]: what a trampoline inside the process adds to a call of a leaf
   function, at the least: `count` adds one to a number, `records` writes a record of the call with two
   readings of the time stamp counter into a ring, `summary` keeps number, sum and a log-linear histogram of
   the durations in place.

   The trampoline is entered through a pointer, as by a GOT slot, and calls the function through another. With
   `bursts` the thread does something else after each thousand calls, as targets/caller does, and what is told
   is its own processor time. */
#include <x86intrin.h>

#include "floor.h"

enum { kRing = 1 << 12, kSubBits = 4, kBuckets = 64 << kSubBits, kBurst = 1000, kBursts = 200 };

struct Record {
  uint64_t entered, left;
  uint32_t site, thread;
  uint64_t arguments[2], result;
  uint64_t committed;
};

static struct Record ring[kRing] __attribute__((aligned(64)));
static uint64_t head;
static uint64_t calls, total;
static uint64_t buckets[kBuckets];

__attribute__((noipa)) static long leaf(long a, long b) {
  return a + b;
}

static long (*volatile original)(long, long) = leaf;
static long (*volatile slot)(long, long);

__attribute__((noipa)) static long counting(long a, long b) {
  calls++;
  return original(a, b);
}

__attribute__((noipa)) static long recording(long a, long b) {
  struct Record* record = &ring[__atomic_fetch_add(&head, 1, __ATOMIC_RELAXED) % kRing];
  record->site = 1;
  record->arguments[0] = (uint64_t)a;
  record->arguments[1] = (uint64_t)b;
  record->entered = __rdtsc();
  long result = original(a, b);
  record->left = __rdtsc();
  record->result = (uint64_t)result;
  __atomic_store_n(&record->committed, 1, __ATOMIC_RELEASE);
  return result;
}

/* 16 buckets for each power of two: a value is known to 1 in 16. */
static unsigned bucket(uint64_t value) {
  if (value < 1U << kSubBits) return (unsigned)value;
  unsigned shift = 63U - (unsigned)__builtin_clzll(value) - kSubBits;
  return ((shift + 1) << kSubBits) + (unsigned)(value >> shift) - (1U << kSubBits);
}

__attribute__((noipa)) static long summing(long a, long b) {
  uint64_t entered = __rdtsc();
  long result = original(a, b);
  uint64_t took = __rdtsc() - entered;
  calls++;
  total += took;
  buckets[bucket(took)]++;
  return result;
}

struct Cost {
  double ns, cpu_ns;
  uint64_t rounds;
};

static struct Cost cost_of(long (*function)(long, long), uint64_t budget) {
  slot = function;
  uint64_t cpu = cpu_ns(), rounds = 0;
  uint64_t started = now_ns(), end = started + budget, now = started;
  long sum = 0;
  for (; now < end; now = now_ns()) {
    for (int i = 0; i < 10000; i++) sum = slot(sum, i);
    rounds += 10000;
  }
  return (struct Cost){(double)(now - started) / (double)rounds, (double)(cpu_ns() - cpu) / (double)rounds,
                       rounds};
}

static int compare(const void* one, const void* other) {
  const uint64_t a = *(const uint64_t*)one, b = *(const uint64_t*)other;
  return (a > b) - (a < b);
}

static struct Cost cost_in_bursts(long (*function)(long, long)) {
  const uint64_t rest = 10 * 1000 * 1000;
  slot = function;
  static uint64_t took[kBursts];
  long sum = 0;
  for (int burst = 0; burst < kBursts; burst++) {
    uint64_t started = read_clock(CLOCK_THREAD_CPUTIME_ID);
    for (int i = 0; i < kBurst; i++) sum = slot(sum, i);
    took[burst] = read_clock(CLOCK_THREAD_CPUTIME_ID) - started;
    for (uint64_t until = now_ns() + rest; now_ns() < until;) __builtin_ia32_pause();
  }
  qsort(took, kBursts, sizeof *took, compare);
  double ns = (double)took[kBursts / 2] / kBurst;
  return (struct Cost){ns, ns, kBurst * kBursts};
}

int main(int argc, char** argv) {
  begin();
  struct Cores cores = allowed_cores();
  pin_to(cores.last);
  const char* kind = argc > 1 ? argv[1] : "records";
  long (*function)(long, long) = strcmp(kind, "count") == 0     ? counting
                                 : strcmp(kind, "records") == 0 ? recording
                                 : strcmp(kind, "summary") == 0 ? summing
                                                                : NULL;
  if (function == NULL) {
    fputs("count, records or summary\n", stderr);
    return 2;
  }
  int bursts = argc > 2 && strcmp(argv[2], "bursts") == 0;
  struct Cost direct = bursts ? cost_in_bursts(leaf) : cost_of(leaf, budget_ns() / 4);
  struct Cost through = bursts ? cost_in_bursts(function) : cost_of(function, budget_ns());
  char what[40];
  snprintf(what, sizeof what, "trampoline_%s", kind);
  report(what, through.ns - direct.ns, through.cpu_ns - direct.cpu_ns, through.rounds);
  return 0;
}
